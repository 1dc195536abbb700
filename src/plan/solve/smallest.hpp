// SmallestBytes: the smallest number of bytes with which each interval of stages can be reversed,
// exactly. Windowed as the rotor is: an interval has at most `window` stages, or ends with the
// chain. Time O(stages * window^2), memory O(stages * window).
#pragma once

#include "plan/solve/needs.hpp"

#include <algorithm>

namespace vram::plan {

class SmallestBytes {
 public:
  SmallestBytes(const Needs& needs, uint32_t window);

  // For t < s + window, or t the last stage.
  [[nodiscard]] uint64_t of(uint32_t s, uint32_t t) const {
    return t + 1 == count_ ? suffixes_[s] : intervals_[size_t{s} * window_ + (t - s)];
  }
  // How many stages a sweep over the beginning of [s, t] may have.
  [[nodiscard]] uint32_t longest_sweep(uint32_t s, uint32_t t) const {
    return std::min(window_, t - s);
  }
  [[nodiscard]] uint32_t window() const { return window_; }
  // Of the whole chain, without the constant bytes.
  [[nodiscard]] uint64_t of_chain() const { return suffixes_[0]; }

 private:
  uint64_t compute(const Needs& needs, uint32_t s, uint32_t t) const;
  void set(uint32_t s, uint32_t t, uint64_t bytes);

  uint32_t count_;
  uint32_t window_;
  // Twice, so that compute() reads both parts of its intervals in the order of memory.
  std::vector<uint64_t> intervals_;  // [s][t - s]
  std::vector<uint64_t> by_last_;    // [t][t - s]
  std::vector<uint64_t> suffixes_;   // [s]
};

}  // namespace vram::plan
