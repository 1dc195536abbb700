// Judge: which alerts there are, look after look.
//
//     Sampled ──▶ Measurer ──▶ a value for each rule and device, process, source
//                                 └──▶ Phase ──▶ alerts(): pending, firing, resolved lately
//                                                └─▶ AlertChange: began to fire, was resolved
//
// One thread at a time. Waits for nothing. Time is the looks' own (monotonic), so a clock that is
// set changes nothing; the same looks make the same alerts.
//
// What it knows can be saved and restored by a later process: alerts and their clocks go on. The
// time between the two counts as a time without looks.
#pragma once

#include "base/result.hpp"
#include "watch/rules/alert.hpp"
#include "watch/rules/clock.hpp"
#include "watch/rules/rule_book.hpp"
#include "watch/sampler.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vram::watch {

struct JudgeOptions {
  // Every process of the machine is to be seen from here, so one that is not is gone:
  // sees_all_processes(). Otherwise only those are known to be gone that were seen before.
  bool sees_all_processes = false;
  uint64_t resolved_kept_ns = 15 * kMinuteNs;
};

// What a Judge knows, as texts to be kept: JSON of a form of its own. Empty: nothing was.
struct SavedJudge {
  std::string alerts;   // short; changes while something holds
  std::string figures;  // what values are judged by: trends, faults, devices; changes always
};

class Judge {
 public:
  explicit Judge(RuleBook book, JudgeOptions options = {});
  Judge(Judge&&) noexcept;
  Judge& operator=(Judge&&) = delete;
  ~Judge();

  // What began to fire and what was resolved by this look.
  std::vector<AlertChange> judge(const Sampled& sampled);

  // While a look has not ended: `overdue_ns` of Sampler, now by the monotonic clock and by UTC. All
  // other alerts stay as they are.
  std::vector<AlertChange> judge_overdue(uint64_t now_ns, int64_t now_unix_ns, uint64_t overdue_ns);

  // Firing ones first, then pending, then those resolved lately; the worst first.
  [[nodiscard]] std::vector<Alert> alerts() const;

  // `now`: of the looks' clock, as `begin_ns` and `time_ns` have it.
  [[nodiscard]] std::string saved_alerts(const ClockReading& now) const;
  [[nodiscard]] std::string saved_figures(const ClockReading& now) const;
  // Before the first look. With an error nothing has changed:
  // expected is what a Judge saved.
  [[nodiscard]] Result<> restore(const SavedJudge& saved, const ClockReading& now);

  // Other rules from now on. What an unchanged rule has seen so far stays; alerts of rules that are
  // not there any more are resolved by the next look.
  void set_rules(RuleBook book);
  [[nodiscard]] const RuleBook& rules() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vram::watch
