// Phase: where an alert stands between its first sign and its end, as a small machine that is
// driven by verdicts. Knows no values and no texts. Pure: monotonic time comes in.
//
//     holds ──▶ pending ──(for so long)──▶ firing ──(clear for so long)──▶ over
//                  └── not any more: dropped        └── unknown for too long: over
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

enum class Turn : uint8_t {
  kNothing,
  kFires,
  kIsClear,    // was firing
  kIsUnknown,  // was firing; nobody knows any more
  kDropped,    // was only pending
};

class Phase {
 public:
  // When the rule holds for the first time.
  explicit Phase(uint64_t now_ns) : since_ns_(now_ns), known_ns_(now_ns) {}

  // After a verdict, also the first one. Time must not go back.
  [[nodiscard]] Turn advance(const Rule& rule, uint64_t now_ns, Verdict verdict);

  [[nodiscard]] bool is_firing() const { return is_firing_; }
  [[nodiscard]] uint64_t since_ns() const { return since_ns_; }  // it holds without a break

 private:
  [[nodiscard]] Turn advance_pending(const Rule& rule, uint64_t now_ns, Verdict verdict);
  [[nodiscard]] Turn advance_firing(const Rule& rule, uint64_t now_ns, Verdict verdict);

  uint64_t since_ns_;
  uint64_t known_ns_;  // the last verdict that was one
  std::optional<uint64_t> clear_since_ns_;
  bool is_firing_ = false;
};

}  // namespace vram::watch
