#include "alerts/judge/judge_state.hpp"

namespace vram::alerts {

// A sample that came late leaves a time of which nothing is known, as an unknown value does.
Transition Phase::advance(const Rule& rule, uint64_t now_ns, Verdict verdict) {
  const Transition transition = times_.is_firing ? advance_firing(rule, now_ns, verdict)
                                                 : advance_pending(rule, now_ns, verdict);
  if (verdict != Verdict::kUnknown) times_.known_ns = now_ns;
  return transition;
}

Transition Phase::advance_pending(const Rule& rule, uint64_t now_ns, Verdict verdict) {
  const bool is_too_long = now_ns - times_.known_ns > rule.unknown_for_ns;
  if (verdict == Verdict::kUnknown)
    return is_too_long ? Transition::kDropped : Transition::kNothing;
  if (verdict != Verdict::kHolds) return Transition::kDropped;
  if (is_too_long) times_.since_ns = now_ns;
  if (now_ns - times_.since_ns < rule.for_ns) return Transition::kNothing;
  times_.is_firing = true;
  return Transition::kFires;
}

Transition Phase::advance_firing(const Rule& rule, uint64_t now_ns, Verdict verdict) {
  const bool is_too_long = now_ns - times_.known_ns > rule.unknown_for_ns;
  if (verdict == Verdict::kUnknown)
    return is_too_long ? Transition::kIsUnknown : Transition::kNothing;
  if (verdict != Verdict::kClear) {
    times_.clear_since_ns.reset();
    return Transition::kNothing;
  }
  if (!times_.clear_since_ns || is_too_long) times_.clear_since_ns = now_ns;
  return now_ns - *times_.clear_since_ns < rule.clear_for_ns ? Transition::kNothing
                                                             : Transition::kIsClear;
}

}  // namespace vram::alerts
