// AlertEngine: the rules, judged at each look, and who is told of what they find.
//
//     Sampled ─▶ Judge ─▶ Outbox ─▶ History ─▶ Notifier ─▶ log, webhooks, Alertmanagers
//                  └─▶ /api/v1/alerts, /api/v1/rules
//
// Where there is a history, alerts survive a restart: what the judge knows and what receivers are
// owed is in its file before anybody is told, so after a kill -9 each of them is told of each
// beginning and each end at least once.
//
// judge() and judge_overdue() are for one thread, which waits for that file, two seconds at most
// and only when an alert begins or ends; everything else is for any thread and waits for a
// judgement at most, which waits for nothing.
#pragma once

#include "serve/notify/notifier.hpp"
#include "serve/outbox.hpp"
#include "serve/router.hpp"
#include "watch/history/history.hpp"
#include "watch/rules/judge.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace vram::serve {

struct AlertEngineOptions {
  std::string rules_file;  // changes the built-in rules; empty: nothing does
  watch::JudgeOptions judge;
  notify::NotifierOptions receivers;
  std::string host;                         // of whose alerts receivers are told before a look
  std::shared_ptr<watch::History> history;  // null: a restart forgets
  watch::ClockReading now;                  // of the looks' clocks
};

class AlertEngine {
 public:
  [[nodiscard]] static Result<std::shared_ptr<AlertEngine>> open(AlertEngineOptions options);
  ~AlertEngine();  // what is known by then is in the history

  void judge(const watch::Sampled& sampled);
  // While a look does not end.
  void judge_overdue(uint64_t now_ns, int64_t now_unix_ns, uint64_t overdue_ns);
  // Reads the rules again; those with an error change nothing.
  [[nodiscard]] Result<> reload();
  // Another URL for one of the receivers, by notify::Notifier's numbers; with an error the old one
  // stays.
  [[nodiscard]] Result<> change_url(size_t receiver, const std::string& url);

  // vram.alerts/1, vram.rules/1
  [[nodiscard]] std::string alerts_json() const;
  [[nodiscard]] std::string rules_json() const;

 private:
  AlertEngine(AlertEngineOptions options, watch::Judge judge,
              std::unique_ptr<notify::Notifier> notifier);
  enum class Part : uint8_t { kAlerts, kAll };
  void restore(const watch::ClockReading& now);
  template <typename Judging>
  void judge_by(const watch::ClockReading& now, Judging judging);
  void publish(std::vector<watch::AlertChange> changes);
  // `next_update`: the first of which no receiver has been told.
  void save(Part part, uint64_t next_update, std::chrono::milliseconds timeout);
  void save_now_and_then();

  const std::string rules_file_;
  const std::shared_ptr<watch::History> history_;
  // Of the thread that judges.
  Outbox outbox_;
  notify::Undelivered undelivered_;  // as it was saved
  watch::ClockReading now_;          // of the last judgement
  uint64_t saved_ns_ = 0;            // when, by that clock
  uint64_t figures_saved_ns_ = 0;

  mutable std::mutex mutex_;  // guards what follows against those that read
  watch::Judge judge_;
  show::AlertsMoment moment_;  // of the last look
  std::unique_ptr<notify::Notifier> notifier_;
};

[[nodiscard]] std::vector<Route> alert_routes(const std::shared_ptr<const AlertEngine>& engine);

}  // namespace vram::serve
