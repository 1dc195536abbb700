#include "watch/rules/phase.hpp"

namespace vram::watch {

// A look that came late leaves a time of which nothing is known, as an unknown value does.
Turn Phase::advance(const Rule& rule, uint64_t now_ns, Verdict verdict) {
  const Turn turn =
      is_firing_ ? advance_firing(rule, now_ns, verdict) : advance_pending(rule, now_ns, verdict);
  if (verdict != Verdict::kUnknown) known_ns_ = now_ns;
  return turn;
}

Turn Phase::advance_pending(const Rule& rule, uint64_t now_ns, Verdict verdict) {
  const bool is_too_long = now_ns - known_ns_ > rule.unknown_for_ns;
  if (verdict == Verdict::kUnknown) return is_too_long ? Turn::kDropped : Turn::kNothing;
  if (verdict != Verdict::kHolds) return Turn::kDropped;
  if (is_too_long) since_ns_ = now_ns;
  if (now_ns - since_ns_ < rule.for_ns) return Turn::kNothing;
  is_firing_ = true;
  return Turn::kFires;
}

Turn Phase::advance_firing(const Rule& rule, uint64_t now_ns, Verdict verdict) {
  const bool is_too_long = now_ns - known_ns_ > rule.unknown_for_ns;
  if (verdict == Verdict::kUnknown) return is_too_long ? Turn::kIsUnknown : Turn::kNothing;
  if (verdict != Verdict::kClear) {
    clear_since_ns_.reset();
    return Turn::kNothing;
  }
  if (!clear_since_ns_ || is_too_long) clear_since_ns_ = now_ns;
  return now_ns - *clear_since_ns_ < rule.clear_for_ns ? Turn::kNothing : Turn::kIsClear;
}

}  // namespace vram::watch
