// AlertEngine: evaluates the rules at each sample and passes alerts to their receivers.
//
//     Sampled ─▶ Judge ─▶ Outbox ─▶ History ─▶ Notifier ─▶ log, webhooks, Alertmanagers
//                  └─▶ alerts_json(), rules_json()
//
// With a history, alerts survive a restart: the judge's state and the undelivered updates are
// stored before they are sent. So after a kill -9, each receiver still gets each beginning and each
// end of an alert at least once.
//
// Silences withhold alerts from receivers, and survive a restart in the same way.
//
// judge() and judge_overdue() belong to one thread, which waits for the history's file for at most
// two seconds, and only if an alert begins or ends. All other functions may be called from any
// thread; they wait at most for a running evaluation, which never blocks, and silence() and
// end_silence() also for the file.
#pragma once

#include "alerts/delivery/notifier.hpp"
#include "alerts/judge/judge.hpp"
#include "alerts/silences.hpp"
#include "history/history.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace vram::alerts {

struct AlertEngineOptions {
  std::string rules_file;  // changes the built-in rules; empty: nothing does
  JudgeOptions judge;
  NotifierOptions receivers;
  std::string host;                           // for alerts before the first sample
  std::shared_ptr<history::History> history;  // null: a restart forgets
  ClockReading now;                           // of the samples' clocks
};

class AlertEngine {
 public:
  [[nodiscard]] static Result<std::shared_ptr<AlertEngine>> open(AlertEngineOptions options);
  ~AlertEngine();  // closes it

  void judge(const watch::Sampled& sampled);
  // Gives receivers a second for what waits; what is known by then is in the history. Nothing is
  // judged afterwards.
  void close();
  // While a sample does not end.
  void judge_overdue(uint64_t now_ns, int64_t now_unix_ns, uint64_t overdue_ns);
  // Reads the rules again; those with an error change nothing.
  [[nodiscard]] Result<> reload();
  // Another URL for one of the receivers, by Notifier's numbers; with an error the old one
  // stays.
  [[nodiscard]] Result<> change_url(size_t receiver, const std::string& url);

  // From now on, for `length_ns`; errors: as Silences::add(), end().
  [[nodiscard]] Result<Silence> silence(Silence what, int64_t length_ns, int64_t now_unix_ns);
  [[nodiscard]] Result<> end_silence(uint64_t number, int64_t now_unix_ns);

  // vram.alerts/1, vram.rules/1, vram.silences/1
  [[nodiscard]] std::string alerts_json() const;
  [[nodiscard]] std::string rules_json() const;
  [[nodiscard]] std::string silences_json() const;

 private:
  AlertEngine(AlertEngineOptions options, Judge judge, std::unique_ptr<Notifier> notifier);
  enum class Part : uint8_t { kAlerts, kAll };
  void restore(const ClockReading& now);
  template <typename Judging>
  void judge_by(const ClockReading& now, Judging judging);
  void publish(std::vector<AlertChange> changes);
  // `next_update`: the first update that no receiver has got.
  void save(Part part, uint64_t next_update, std::chrono::milliseconds timeout);
  void save_now_and_then();
  void save_silences();

  const std::string rules_file_;
  const std::shared_ptr<history::History> history_;
  // Of the thread that judges.
  Outbox outbox_;
  Undelivered undelivered_;  // as it was saved
  ClockReading now_;         // of the last judgement
  uint64_t saved_ns_ = 0;    // when, by that clock
  uint64_t figures_saved_ns_ = 0;
  bool is_closed_ = false;

  std::mutex saving_mutex_;   // so that the silences saved last are the last ones
  mutable std::mutex mutex_;  // guards what follows against those that read
  Judge judge_;
  Silences silences_;
  AlertsMoment moment_;  // of the last sample
  std::unique_ptr<Notifier> notifier_;
};

}  // namespace vram::alerts
