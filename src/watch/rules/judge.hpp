// Judge: which alerts there are, look after look.
//
//     Sampled ──▶ Measurer ──▶ a value for each rule and device, process, source
//                                 └──▶ Phase ──▶ alerts(): pending, firing, resolved lately
//                                                └─▶ AlertChange: began to fire, was resolved
//
// One thread at a time. Waits for nothing. Time is the looks' own (monotonic), so a clock that is
// set changes nothing; the same looks make the same alerts.
#pragma once

#include "watch/rules/alert.hpp"
#include "watch/rules/rule_book.hpp"
#include "watch/sampler.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace vram::watch {

struct JudgeOptions {
  // Every process of the machine is to be seen from here, so one that is not is gone:
  // sees_all_processes(). Otherwise only those are known to be gone that were seen before.
  bool sees_all_processes = false;
  uint64_t resolved_kept_ns = 15 * kMinuteNs;
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

  // Other rules from now on. What an unchanged rule has seen so far stays; alerts of rules that are
  // not there any more are resolved by the next look.
  void set_rules(RuleBook book);
  [[nodiscard]] const RuleBook& rules() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vram::watch
