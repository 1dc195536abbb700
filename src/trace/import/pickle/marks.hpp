// Marks: the positions of MARK opcodes on the machine's stack. Their number is limited by how deep
// containers may nest. One thread.
#pragma once

#include "trace/import/pickle/sink.hpp"

#include <array>
#include <cstddef>

namespace vram::trace::pickle {

class Marks {
 public:
  static constexpr size_t kMaxMarks = 2 * kMaxOpen;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] bool full() const { return count_ == kMaxMarks; }
  // The size of the stack at the topmost mark, below which opcodes cannot reach; 0 without a mark.
  [[nodiscard]] size_t floor() const { return count_ == 0 ? 0 : positions_[count_ - 1]; }
  // Only if it is not full.
  void push(size_t position) { positions_[count_++] = position; }
  // Only if it is not empty.
  size_t pop() { return positions_[--count_]; }

 private:
  std::array<size_t, kMaxMarks> positions_ = {};
  size_t count_ = 0;
};

}  // namespace vram::trace::pickle
