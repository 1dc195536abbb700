// What every solver uses: writers of the sequences of operations, and its end, which runs the
// operations through verify().
#pragma once

#include "plan/chain.hpp"
#include "plan/verify.hpp"

#include <string_view>

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

// The schedule and its cost, within any budget. An error is a bug of the solver.
[[nodiscard]] Result<Schedule> measured(const Chain& chain, std::string_view solver,
                                        std::vector<Operation> operations);
// The schedule if it fits, else an error with what it needs.
[[nodiscard]] Result<Schedule> if_it_fits(Schedule schedule, uint64_t budget_bytes);

}  // namespace vram::plan
