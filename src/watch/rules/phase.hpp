// Phase: the state of an alert between its first sign and its end, a state machine driven by
// verdicts. Contains no values and no texts. Pure: monotonic time is a parameter.
//
//     holds ──▶ pending ──(for so long)──▶ firing ──(clear for so long)──▶ over
//                  └── no longer: dropped           └── unknown for too long: over
#pragma once

#include "watch/rules/rule.hpp"

#include <cstdint>
#include <optional>

namespace vram::watch {

enum class Verdict : uint8_t {
  kUnknown,
  kClear,    // beyond the clear threshold
  kBetween,  // neither: keeps an alert alive, begins none
  kHolds,
};

enum class Transition : uint8_t {
  kNothing,
  kFires,
  kIsClear,    // was firing
  kIsUnknown,  // was firing; unknown for too long
  kDropped,    // was only pending
};

class Phase {
 public:
  // The complete state.
  struct Times {
    uint64_t since_ns = 0;
    uint64_t known_ns = 0;
    std::optional<uint64_t> clear_since_ns = std::nullopt;
    bool is_firing = false;
  };

  // When the rule holds for the first time.
  explicit Phase(uint64_t now_ns) : Phase(Times{.since_ns = now_ns, .known_ns = now_ns}) {}
  explicit Phase(const Times& times) : times_(times) {}

  // After a verdict, also the first one. Time must not go back.
  [[nodiscard]] Transition advance(const Rule& rule, uint64_t now_ns, Verdict verdict);

  [[nodiscard]] bool is_firing() const { return times_.is_firing; }
  [[nodiscard]] uint64_t since_ns() const { return times_.since_ns; }  // it holds without a break
  [[nodiscard]] const Times& times() const { return times_; }

 private:
  [[nodiscard]] Transition advance_pending(const Rule& rule, uint64_t now_ns, Verdict verdict);
  [[nodiscard]] Transition advance_firing(const Rule& rule, uint64_t now_ns, Verdict verdict);

  Times times_;
};

}  // namespace vram::watch
