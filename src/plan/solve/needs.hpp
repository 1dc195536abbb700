// What every solver uses. Needs: what solvers ask of a chain, with sums over stages at hand; and
// writers of the operations, whose end runs them through verify(). A solver works on intervals of
// stages [s, t]: "reverse [s, t]" runs their forward and backward while the input of s is there
// (not counted) and the stages after t have had their backward.
#pragma once

#include "plan/chain.hpp"
#include "plan/verify.hpp"

#include <algorithm>
#include <string_view>

namespace vram::plan {

// Refers to the chain.
class Needs {
 public:
  explicit Needs(const Chain& chain);

  [[nodiscard]] const Chain& chain() const { return chain_; }
  [[nodiscard]] uint32_t stage_count() const { return static_cast<uint32_t>(chain_.stages.size()); }
  // Bytes that every schedule holds all the time.
  [[nodiscard]] uint64_t constant_bytes() const { return chain_.fixed_bytes + chain_.input_bytes; }
  // Gradients that exist while [.., t] waits for its backward: of the output of t, and of the
  // parameters after t. The last stage's backward brings its own gradient.
  [[nodiscard]] uint64_t gradient_bytes(uint32_t t) const { return gradients_[t]; }
  // The peak of running stage s with this option as the first stage of [s, t], and of its backward.
  [[nodiscard]] uint64_t save_bytes(uint32_t s, uint32_t option, uint32_t t) const;
  // ... without what depends on t: the forward, and everything later.
  [[nodiscard]] uint64_t save_forward_bytes(uint32_t s, uint32_t option) const;
  [[nodiscard]] uint64_t save_backward_bytes(uint32_t s, uint32_t option) const;
  // The peak of running stage k without keeping anything in a sweep that begins at s; gradients are
  // not counted.
  [[nodiscard]] uint64_t sweep_bytes(uint32_t s, uint32_t k) const;
  // How much longer a stage takes with this option than with its fastest one.
  [[nodiscard]] uint64_t extra_ns(uint32_t s, uint32_t option) const;
  // The step without any recomputation, each stage with its fastest option.
  [[nodiscard]] uint64_t ideal_ns() const { return ideal_ns_; }

  [[nodiscard]] const Stage& stage(uint32_t i) const { return chain_.stages[i]; }
  [[nodiscard]] const Option& option(uint32_t i, uint32_t number) const {
    return chain_.stages[i].options[number];
  }
  [[nodiscard]] uint32_t option_count(uint32_t i) const {
    return static_cast<uint32_t>(chain_.stages[i].options.size());
  }
  [[nodiscard]] uint32_t fastest(uint32_t i) const { return fastest_[i]; }

 private:
  const Chain& chain_;
  std::vector<uint64_t> gradients_;        // by stage: gradient_bytes()
  std::vector<uint64_t> parameter_bytes_;  // by stage: gradients of the parameters after it
  std::vector<uint32_t> fastest_;
  uint64_t ideal_ns_ = 0;
};

// SmallestBytes: the smallest number of bytes with which each interval of stages can be reversed,
// exactly. Windowed as the rotor is: an interval has at most `window` stages, or ends with the
// chain. Time O(stages * window^2), memory O(stages * window).
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
