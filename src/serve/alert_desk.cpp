#include "serve/alert_desk.hpp"

#include "serve/errors.hpp"

#include <utility>

namespace vram::serve {
namespace {

Result<watch::RuleBook> book_of(const std::string& rules_file) {
  return rules_file.empty() ? watch::RuleBook::built_in() : watch::RuleBook::load(rules_file);
}

// A disk that hangs delays news, but not for good.
constexpr auto kPatience = std::chrono::seconds(2);
constexpr uint64_t kSavePeriodNs = 10 * watch::kSecondNs;  // while something holds
constexpr uint64_t kFiguresPeriodNs = watch::kMinuteNs;

// Names in the history's file.
constexpr const char* kAlerts = "alerts";
constexpr const char* kFigures = "alert figures";
constexpr const char* kOutbox = "alert outbox";

}  // namespace

Result<std::shared_ptr<AlertDesk>> AlertDesk::open(AlertDeskOptions options) {
  auto book = book_of(options.rules_file);
  if (!book) return tl::unexpected(std::move(book.error()));
  auto notifier = notify::Notifier::open(options.receivers);
  if (!notifier) return tl::unexpected(std::move(notifier.error()));
  watch::Judge judge(*std::move(book), options.judge);
  const watch::ClockReading now = options.now;
  std::shared_ptr<AlertDesk> desk(
      new AlertDesk(std::move(options), std::move(judge), *std::move(notifier)));
  if (desk->history_) desk->restore(now);
  return desk;
}

AlertDesk::AlertDesk(AlertDeskOptions options, watch::Judge judge,
                     std::unique_ptr<notify::Notifier> notifier)
    : rules_file_(std::move(options.rules_file)),
      history_(std::move(options.history)),
      now_(options.now),
      judge_(std::move(judge)),
      moment_{.time_unix_ns = options.now.unix_ns, .host = std::move(options.host)},
      notifier_(std::move(notifier)) {}

// Receivers get a second for what waits; what they have then is not told again.
AlertDesk::~AlertDesk() {
  if (!history_) return;
  notifier_->close();
  save(Part::kAll, outbox_.next_number(), kPatience);
}

// What can't be restored is as if nothing had been kept.
void AlertDesk::restore(const watch::ClockReading& now) {
  const auto restored =
      judge_.restore({.alerts = history_->kept(kAlerts), .figures = history_->kept(kFigures)}, now);
  if (!restored) notifier_->complain(restored.error().message);
  const auto owed = outbox_.restore(history_->kept(kOutbox));
  if (!owed) return notifier_->complain(owed.error().message);
  notifier_->tell_again(owed->news, owed->owed);
  notifier_->tell({.moment = moment_, .changes = {}, .alerts = judge_.alerts()});
}

// Before anybody is told: whoever hears that an alert fires hears of its end, too, whenever this
// process is killed.
void AlertDesk::tell(std::vector<watch::AlertChange> changes) {
  const uint64_t number = outbox_.next_number();
  if (history_) {
    outbox_.add(moment_, changes);
    save(Part::kAll, number, kPatience);
  }
  notifier_->tell({.moment = moment_,
                   .changes = std::move(changes),
                   .alerts = judge_.alerts(),
                   .number = number});
}

void AlertDesk::save(Part part, uint64_t next_news, std::chrono::milliseconds patience) {
  owed_ = notifier_->owed(next_news);
  outbox_.settle(owed_);
  watch::KeptTexts texts{{kAlerts, judge_.saved_alerts(now_)}, {kOutbox, outbox_.save(owed_)}};
  saved_ns_ = now_.now_ns;
  if (part == Part::kAll) {
    texts[kFigures] = judge_.saved_figures(now_);
    figures_saved_ns_ = now_.now_ns;
  }
  history_->keep(std::move(texts), patience);
}

void AlertDesk::save_now_and_then() {
  const bool is_delivered = !outbox_.empty() && notifier_->owed(outbox_.next_number()) != owed_;
  const bool is_due = now_.now_ns - saved_ns_ >= kSavePeriodNs && !judge_.alerts().empty();
  if (now_.now_ns - figures_saved_ns_ >= kFiguresPeriodNs) {
    save(Part::kAll, outbox_.next_number(), {});
  } else if (is_delivered || is_due) {
    save(Part::kAlerts, outbox_.next_number(), {});
  }
}

// The lock is not held while a disk is waited for.
template <typename Judging>
void AlertDesk::judge_by(const watch::ClockReading& now, Judging judging) {
  std::vector<watch::AlertChange> changes;
  {
    const std::lock_guard guard(mutex_);
    if (now.now_ns > now_.now_ns) now_ = now;  // a look that hung began before it was overdue
    changes = judging();
  }
  if (!changes.empty()) return tell(std::move(changes));
  if (history_) save_now_and_then();
}

void AlertDesk::judge(const watch::Sampled& sampled) {
  const watch::Snapshot& snapshot = sampled.snapshot;
  judge_by({.now_ns = sampled.begin_ns, .unix_ns = snapshot.time_ns, .boot = now_.boot}, [&] {
    moment_ = {.time_unix_ns = snapshot.time_ns, .host = snapshot.host};
    return judge_.judge(sampled);
  });
}

void AlertDesk::judge_overdue(uint64_t now_ns, int64_t now_unix_ns, uint64_t overdue_ns) {
  judge_by({.now_ns = now_ns, .unix_ns = now_unix_ns, .boot = now_.boot}, [&] {
    moment_.time_unix_ns = now_unix_ns;
    return judge_.judge_overdue(now_ns, now_unix_ns, overdue_ns);
  });
}

Result<> AlertDesk::reload() {
  auto book = book_of(rules_file_);
  if (!book) return tl::unexpected(std::move(book.error()));
  const std::lock_guard guard(mutex_);
  judge_.set_rules(*std::move(book));
  return {};
}

Result<> AlertDesk::readdress(size_t receiver, const std::string& url) {
  return notifier_->readdress(receiver, url);
}

std::string AlertDesk::alerts_json() const {
  const std::lock_guard guard(mutex_);
  return show::alerts_json(moment_, judge_.alerts());
}

std::string AlertDesk::rules_json() const {
  const std::lock_guard guard(mutex_);
  return show::rules_json(judge_.rules());
}

std::vector<Route> alert_routes(const std::shared_ptr<const AlertDesk>& desk) {
  return {{"/api/v1/alerts",
           {},
           "what is wrong now, or was lately",
           [desk](const Request&, std::string_view) { return json_response(desk->alerts_json()); }},
          {"/api/v1/rules",
           {},
           "the rules of alerts in force",
           [desk](const Request&, std::string_view) { return json_response(desk->rules_json()); }}};
}

}  // namespace vram::serve
