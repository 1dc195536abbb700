// Judge: derives alerts from successive samples.
//
//     Sampled ──▶ Measurer ──▶ a value for each rule and device, process, source
//                                 └──▶ Phase ──▶ alerts(): pending, firing, recently resolved
//                                                └─▶ AlertChange: began to fire, was resolved
//
// Use it from one thread at a time; it never waits. Time is the samples' own (monotonic), so
// setting the clock has no effect; the same samples give the same alerts.
//
// Its state can be saved and restored by a later process: alerts and their clocks continue. The
// time in between counts as time without samples.
#pragma once

#include "alerts/alert.hpp"
#include "alerts/rules/rule_book.hpp"
#include "base/result.hpp"
#include "watch/sampler.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vram::alerts {

struct JudgeOptions {
  // True if every process of the machine is visible (sees_all_processes()): an invisible process
  // has ended. Otherwise only processes that were seen before are known to have ended.
  bool sees_all_processes = false;
  uint64_t resolved_kept_ns = 15 * kMinuteNs;
};

// The state of a Judge as JSON texts; empty: none.
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

  // Returns the alerts that began to fire or were resolved in this sample.
  std::vector<AlertChange> judge(const watch::Sampled& sampled);

  // Call it while a sample has not ended: `overdue_ns` of Sampler, and the current monotonic time
  // and UTC. All other alerts are unchanged.
  std::vector<AlertChange> judge_overdue(uint64_t now_ns, int64_t now_unix_ns, uint64_t overdue_ns);

  // Firing alerts first, then pending, then recently resolved ones; the most severe first.
  [[nodiscard]] std::vector<Alert> alerts() const;

  // `now`: on the samples' clocks, as `begin_ns` and `time_ns`.
  [[nodiscard]] std::string saved_alerts(const ClockReading& now) const;
  [[nodiscard]] std::string saved_figures(const ClockReading& now) const;
  // Call it before the first sample. An error means that nothing has changed: expected is the state
  // that a Judge saved.
  [[nodiscard]] Result<> restore(const SavedJudge& saved, const ClockReading& now);

  // Replaces the rules. Unchanged rules keep their state; alerts of removed rules are resolved by
  // the next sample.
  void set_rules(RuleBook book);
  [[nodiscard]] const RuleBook& rules() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vram::alerts
