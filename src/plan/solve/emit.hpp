// Writers of the sequences of operations that every solver uses.
#pragma once

#include "plan/chain.hpp"
#include "plan/schedule.hpp"

namespace vram::plan {

// Runs [first, last] without keeping anything but the input of `first` and the output of `last`.
inline void emit_sweep(std::vector<Operation>& operations, uint32_t first, uint32_t last) {
  for (uint32_t i = first; i <= last; ++i)
    operations.push_back({i == first ? OpKind::kForwardKeepInput : OpKind::kForward, i, 0});
}

inline void emit_save(std::vector<Operation>& operations, const Chain& chain, uint32_t stage,
                      uint32_t option) {
  operations.push_back({OpKind::kForwardSave, stage, option});
  if (chain.stages[stage].options[option].offloaded_bytes > 0)
    operations.push_back({OpKind::kOffload, stage, 0});
}

inline void emit_backward(std::vector<Operation>& operations, const Chain& chain, uint32_t stage,
                          uint32_t option) {
  if (chain.stages[stage].options[option].offloaded_bytes > 0)
    operations.push_back({OpKind::kFetch, stage, 0});
  operations.push_back({OpKind::kBackward, stage, 0});
}

}  // namespace vram::plan
