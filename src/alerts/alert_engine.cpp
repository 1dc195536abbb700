#include "alerts/alert_engine.hpp"

#include "base/result.hpp"

#include <algorithm>
#include <utility>

namespace vram::alerts {
namespace {

Result<RuleBook> book_of(const std::string& rules_file) {
  return rules_file.empty() ? RuleBook::built_in() : RuleBook::load(rules_file);
}

// A disk that hangs delays news, but not for good.
constexpr auto kTimeout = std::chrono::seconds(2);
constexpr uint64_t kSavePeriodNs = 10 * kSecondNs;  // while something holds
constexpr uint64_t kFiguresPeriodNs = kMinuteNs;

// Names in the history's file.
constexpr const char* kAlerts = "alerts";
constexpr const char* kFigures = "alert figures";
constexpr const char* kOutbox = "alert outbox";
constexpr const char* kSilences = "alert silences";

}  // namespace

Result<std::shared_ptr<AlertEngine>> AlertEngine::open(AlertEngineOptions options) {
  VRAM_TRY_ASSIGN(auto book, book_of(options.rules_file));
  VRAM_TRY_ASSIGN(auto notifier, Notifier::open(options.receivers));
  Judge judge(std::move(book), options.judge);
  const ClockReading now = options.now;
  std::shared_ptr<AlertEngine> engine(
      new AlertEngine(std::move(options), std::move(judge), std::move(notifier)));
  if (engine->history_) engine->restore(now);
  return engine;
}

AlertEngine::AlertEngine(AlertEngineOptions options, Judge judge,
                         std::unique_ptr<Notifier> notifier)
    : rules_file_(std::move(options.rules_file)),
      history_(std::move(options.history)),
      now_(options.now),
      judge_(std::move(judge)),
      moment_{.time_unix_ns = options.now.unix_ns, .host = std::move(options.host)},
      notifier_(std::move(notifier)) {}

AlertEngine::~AlertEngine() { close(); }

// What receivers have by then is not sent again.
void AlertEngine::close() {
  if (std::exchange(is_closed_, true)) return;
  notifier_->close();
  if (!history_) return;
  save(Part::kAll, outbox_.next_number(), kTimeout);
}

// What can't be restored is as if nothing had been kept.
void AlertEngine::restore(const ClockReading& now) {
  const auto restored =
      judge_.restore({.alerts = history_->kept(kAlerts), .figures = history_->kept(kFigures)}, now);
  if (!restored) notifier_->warn(restored.error().message);
  const auto silences = silences_.restore(history_->kept(kSilences));
  if (!silences) notifier_->warn(silences.error().message);
  const auto undelivered = outbox_.restore(history_->kept(kOutbox));
  if (!undelivered) return notifier_->warn(undelivered.error().message);
  notifier_->publish_again(undelivered->update, undelivered->undelivered);
  notifier_->publish(
      {.moment = moment_, .changes = {}, .alerts = silences_.known(judge_.alerts())});
}

// Saved before any receiver is notified: one that has received an alert also receives its end,
// whenever this process is killed.
void AlertEngine::publish(std::vector<AlertChange> changes) {
  const uint64_t number = outbox_.next_number();
  if (history_) {
    outbox_.add(moment_, changes);
    save(Part::kAll, number, kTimeout);
  }
  notifier_->publish({.moment = moment_,
                      .changes = std::move(changes),
                      .alerts = silences_.known(judge_.alerts()),
                      .number = number});
}

void AlertEngine::save(Part part, uint64_t next_update, std::chrono::milliseconds timeout) {
  undelivered_ = notifier_->undelivered(next_update);
  outbox_.settle(undelivered_);
  history::TextCache texts{{kAlerts, judge_.saved_alerts(now_)},
                           {kOutbox, outbox_.save(undelivered_)}};
  saved_ns_ = now_.now_ns;
  if (part == Part::kAll) {
    texts[kFigures] = judge_.saved_figures(now_);
    figures_saved_ns_ = now_.now_ns;
  }
  history_->keep(std::move(texts), timeout);
}

void AlertEngine::save_now_and_then() {
  const bool is_delivered =
      !outbox_.empty() && notifier_->undelivered(outbox_.next_number()) != undelivered_;
  const bool is_due = now_.now_ns - saved_ns_ >= kSavePeriodNs && !judge_.alerts().empty();
  if (now_.now_ns - figures_saved_ns_ >= kFiguresPeriodNs) {
    save(Part::kAll, outbox_.next_number(), {});
  } else if (is_delivered || is_due) {
    save(Part::kAlerts, outbox_.next_number(), {});
  }
}

// The lock is not held while a disk is waited for.
template <typename Judging>
void AlertEngine::judge_by(const ClockReading& now, Judging judging) {
  std::vector<AlertChange> changes;
  bool has_other_silences = false;
  {
    const std::lock_guard guard(mutex_);
    if (now.now_ns > now_.now_ns) now_ = now;  // a sample that hung began before it was overdue
    std::vector<AlertChange> judged = judging();
    const Silences before = silences_;
    changes = silences_.pass(std::move(judged), judge_.alerts(), now.unix_ns);
    has_other_silences = silences_ != before;
  }
  if (has_other_silences) save_silences();
  if (!changes.empty()) return publish(std::move(changes));
  if (history_) save_now_and_then();
}

void AlertEngine::judge(const watch::Sampled& sampled) {
  const watch::Snapshot& snapshot = sampled.snapshot;
  judge_by({.now_ns = sampled.begin_ns, .unix_ns = snapshot.time_ns, .boot = now_.boot}, [&] {
    moment_ = {.time_unix_ns = snapshot.time_ns, .host = snapshot.host};
    return judge_.judge(sampled);
  });
}

void AlertEngine::judge_overdue(uint64_t now_ns, int64_t now_unix_ns, uint64_t overdue_ns) {
  judge_by({.now_ns = now_ns, .unix_ns = now_unix_ns, .boot = now_.boot}, [&] {
    moment_.time_unix_ns = now_unix_ns;
    return judge_.judge_overdue(now_ns, now_unix_ns, overdue_ns);
  });
}

void AlertEngine::save_silences() {
  if (!history_) return;
  const std::lock_guard saving(saving_mutex_);
  std::string saved;
  {
    const std::lock_guard guard(mutex_);
    saved = silences_.save();
  }
  history_->keep({{kSilences, std::move(saved)}}, kTimeout);
}

Result<Silence> AlertEngine::silence(Silence what, int64_t length_ns, int64_t now_unix_ns) {
  what.from_unix_ns = now_unix_ns;
  what.until_unix_ns = now_unix_ns + std::clamp<int64_t>(length_ns, 0, kMaxSilenceNs + 1);
  Result<Silence> added = [&] {
    const std::lock_guard guard(mutex_);
    return silences_.add(std::move(what));
  }();
  if (added) save_silences();
  return added;
}

Result<> AlertEngine::end_silence(uint64_t number, int64_t now_unix_ns) {
  const Result<> ended = [&] {
    const std::lock_guard guard(mutex_);
    return silences_.end(number, now_unix_ns);
  }();
  if (ended) save_silences();
  return ended;
}

Result<> AlertEngine::reload() {
  VRAM_TRY_ASSIGN(auto book, book_of(rules_file_));
  const std::lock_guard guard(mutex_);
  judge_.set_rules(std::move(book));
  return {};
}

Result<> AlertEngine::change_url(size_t receiver, const std::string& url) {
  return notifier_->change_url(receiver, url);
}

std::string AlertEngine::alerts_json() const {
  const std::lock_guard guard(mutex_);
  return alerts::alerts_json(moment_, judge_.alerts(), silences_);
}

std::string AlertEngine::silences_json() const {
  const std::lock_guard guard(mutex_);
  return alerts::silences_json(moment_, silences_);
}

std::string AlertEngine::rules_json() const {
  const std::lock_guard guard(mutex_);
  return alerts::rules_json(judge_.rules());
}

}  // namespace vram::alerts
