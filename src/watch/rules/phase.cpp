#include "watch/rules/phase.hpp"

namespace vram::watch {

// A look that came late leaves a time of which nothing is known, as an unknown value does.
Turn Phase::advance(const Rule& rule, uint64_t now_ns, Verdict verdict) {
  const Turn turn = times_.is_firing ? advance_firing(rule, now_ns, verdict)
                                     : advance_pending(rule, now_ns, verdict);
  if (verdict != Verdict::kUnknown) times_.known_ns = now_ns;
  return turn;
}

Turn Phase::advance_pending(const Rule& rule, uint64_t now_ns, Verdict verdict) {
  const bool is_too_long = now_ns - times_.known_ns > rule.unknown_for_ns;
  if (verdict == Verdict::kUnknown) return is_too_long ? Turn::kDropped : Turn::kNothing;
  if (verdict != Verdict::kHolds) return Turn::kDropped;
  if (is_too_long) times_.since_ns = now_ns;
  if (now_ns - times_.since_ns < rule.for_ns) return Turn::kNothing;
  times_.is_firing = true;
  return Turn::kFires;
}

Turn Phase::advance_firing(const Rule& rule, uint64_t now_ns, Verdict verdict) {
  const bool is_too_long = now_ns - times_.known_ns > rule.unknown_for_ns;
  if (verdict == Verdict::kUnknown) return is_too_long ? Turn::kIsUnknown : Turn::kNothing;
  if (verdict != Verdict::kClear) {
    times_.clear_since_ns.reset();
    return Turn::kNothing;
  }
  if (!times_.clear_since_ns || is_too_long) times_.clear_since_ns = now_ns;
  return now_ns - *times_.clear_since_ns < rule.clear_for_ns ? Turn::kNothing : Turn::kIsClear;
}

}  // namespace vram::watch
