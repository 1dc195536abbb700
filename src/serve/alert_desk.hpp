// AlertDesk: the rules, judged at each look, and who is told of what they find.
//
//     Sampled ─▶ Judge ─▶ Notifier ─▶ log, webhooks, Alertmanagers
//                  └─▶ /api/v1/alerts, /api/v1/rules
//
// Any thread; each waits for a judgement at most, which waits for nothing.
#pragma once

#include "serve/notify/notifier.hpp"
#include "serve/router.hpp"
#include "watch/rules/judge.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace vram::serve {

class AlertDesk {
 public:
  // `rules_file` changes the built-in rules; empty: nothing does.
  [[nodiscard]] static Result<std::shared_ptr<AlertDesk>> open(
      std::string rules_file, watch::JudgeOptions options,
      const notify::NotifierOptions& receivers);

  void judge(const watch::Sampled& sampled);
  // While a look does not end.
  void judge_overdue(uint64_t now_ns, int64_t now_unix_ns, uint64_t overdue_ns);
  // Reads the rules again; those with an error change nothing.
  [[nodiscard]] Result<> reload();
  // Another URL for one of the receivers, by notify::Notifier's numbers; with an error the old one
  // stays.
  [[nodiscard]] Result<> readdress(size_t receiver, const std::string& url);

  // vram.alerts/1, vram.rules/1
  [[nodiscard]] std::string alerts_json() const;
  [[nodiscard]] std::string rules_json() const;

 private:
  AlertDesk(std::string rules_file, watch::Judge judge, std::unique_ptr<notify::Notifier> notifier)
      : rules_file_(std::move(rules_file)),
        judge_(std::move(judge)),
        notifier_(std::move(notifier)) {}
  void tell(std::vector<watch::AlertChange> changes);

  const std::string rules_file_;
  mutable std::mutex mutex_;  // guards what follows
  watch::Judge judge_;
  show::AlertsMoment moment_;  // of the last look
  std::unique_ptr<notify::Notifier> notifier_;
};

[[nodiscard]] std::vector<Route> alert_routes(const std::shared_ptr<const AlertDesk>& desk);

}  // namespace vram::serve
