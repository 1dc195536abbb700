// The state of a Judge: part of it, for judge.cpp and saved.cpp.
#pragma once

#include "alerts/judge/judge.hpp"
#include "alerts/judge/measurer.hpp"
#include "alerts/judge/saved.hpp"
#include "alerts/rules/rule.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace vram::alerts {

// Phase: the state of an alert between its first sign and its end, a state machine driven by
// verdicts. Contains no values and no texts. Pure: monotonic time is a parameter.
//
//     holds ──▶ pending ──(for `for`)──▶ firing ──(clear for `clear_for`)──▶ over
//                  └── no longer: dropped           └── unknown for too long: over

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

// The state of one subject of a rule.
struct Case {
  Phase phase;
  Alert alert;
  // The last sample that had, or could have had, a value for it.
  uint64_t seen = 0;
};

// The receivers' name for an alert: with another one it is another alert.
[[nodiscard]] inline bool has_same_name(const Rule& a, const Rule& b) {
  return a.name == b.name && a.measure == b.measure && a.severity == b.severity &&
         a.labels == b.labels;
}

struct Ruled {
  Rule rule;
  std::map<Subject, Case> cases;
};

struct Judge::State {
  State(RuleBook given, JudgeOptions wanted)
      : book(std::move(given)), options(wanted), measurer(wanted.sees_all_processes) {}

  void set_rules(RuleBook given);
  std::vector<AlertChange> judge(const SampleView& view, bool is_whole);
  void judge_rule(Ruled& ruled, const SampleView& view, std::vector<AlertChange>& changes);
  void judge_one(Ruled& ruled, const Measured& measured, const SampleView& view,
                 std::vector<AlertChange>& changes);
  void judge_unseen(Ruled& ruled, const SampleView& view, std::vector<AlertChange>& changes);
  // True: the case is over.
  bool take_turn(Transition transition, Case& subject, int64_t time_ns,
                 std::vector<AlertChange>& changes);
  void resolve(Alert alert, Ending ending, int64_t time_ns, std::vector<AlertChange>& changes);
  void forget_resolved();
  void see(uint64_t monotonic_ns);
  [[nodiscard]] Json clock(const ClockReading& now) const;
  // Alerts that a process before this one had, by the rules of now.
  void take_over(const Json& saved);
  // Cases of removed rules become orphans.
  void take_case(const Json& saved);

  RuleBook book;
  JudgeOptions options;
  Measurer measurer;
  std::vector<Ruled> rules;    // enabled ones
  std::vector<Alert> orphans;  // firing, of removed rules
  struct Resolved {
    Alert alert;
    uint64_t ended_ns = 0;
  };
  std::deque<Resolved> resolved;  // by end
  uint64_t now_ns = 0;            // of the last sample, on the judge's own clock
  // The offset to the monotonic clock: how far the earlier process's clock had advanced.
  int64_t ahead_ns = 0;
  uint64_t sample_count = 0;
};

// A sample that came late leaves a time of which nothing is known, as an unknown value does.
inline Transition Phase::advance(const Rule& rule, uint64_t now_ns, Verdict verdict) {
  const Transition transition = times_.is_firing ? advance_firing(rule, now_ns, verdict)
                                                 : advance_pending(rule, now_ns, verdict);
  if (verdict != Verdict::kUnknown) times_.known_ns = now_ns;
  return transition;
}

inline Transition Phase::advance_pending(const Rule& rule, uint64_t now_ns, Verdict verdict) {
  const bool is_too_long = now_ns - times_.known_ns > rule.unknown_for_ns;
  if (verdict == Verdict::kUnknown)
    return is_too_long ? Transition::kDropped : Transition::kNothing;
  if (verdict != Verdict::kHolds) return Transition::kDropped;
  if (is_too_long) times_.since_ns = now_ns;
  if (now_ns - times_.since_ns < rule.for_ns) return Transition::kNothing;
  times_.is_firing = true;
  return Transition::kFires;
}

inline Transition Phase::advance_firing(const Rule& rule, uint64_t now_ns, Verdict verdict) {
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
