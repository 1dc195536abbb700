// EndState: the segments that the allocator had at the end, and their blocks. One thread.
#pragma once

#include "trace/import/torch/dict.hpp"
#include "trace/import/torch/names.hpp"
#include "trace/import/torch/stacks.hpp"

#include <span>

namespace vram::trace::torch {

class EndState {
 public:
  // All arguments must outlive this.
  EndState(Collected& all, Stacks& stacks, Names& names)
      : all_(all), stacks_(stacks), names_(names) {}

  // Return the record of a complete dictionary of each kind.
  [[nodiscard]] pickle::Value end_segment(const Dict& dict);
  [[nodiscard]] pickle::Value end_block(const Dict& dict);
  [[nodiscard]] pickle::Value end_tenant(const Dict& dict);

 private:
  std::span<Block> take_blocks(const pickle::Value& value, Segment& segment);

  Collected& all_;
  Stacks& stacks_;
  Names& names_;
};

}  // namespace vram::trace::torch
