#include "alerts/delivery/receivers.hpp"

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace vram::alerts {
namespace {

constexpr int kShownAnswer = 200;  // columns of what a receiver says

std::vector<Alert> alerts_of(const AlertUpdate& update) {
  std::vector<Alert> alerts;
  for (const AlertChange& change : update.changes) alerts.push_back(change.alert);
  return alerts;
}

class Log final : public LogReceiver {
 public:
  explicit Log(const NotifierOptions& options)
      : form_(options.log),
        write_(options.write),
        warn_(options.warn),
        queue_(options.queue_size, std::chrono::hours(24 * 365)) {}

  std::string kind() const override { return "log"; }
  std::string name() const override { return "log"; }

  size_t take(const AlertUpdate& update, Clock::time_point now) override {
    size_t dropped = 0;
    if (!needs_every_change()) return 0;
    for (const AlertChange& change : update.changes) {
      dropped += queue_.add(
          kLine + (form_ == LogForm::kJson ? alerts::alert_log_json(update.moment, change.alert)
                                           : alerts::alert_log_text(update.moment, change.alert)),
          now, update.number);
    }
    return dropped;
  }
  size_t take_warning(const std::string& message, Clock::time_point now) override {
    return warn_ ? queue_.add(kComplaint + message, now) : 0;
  }
  bool needs_every_change() const override { return form_ != LogForm::kNone && write_; }
  std::optional<uint64_t> first_undelivered() const override { return queue_.first_update(); }

  std::optional<Clock::time_point> due() const override { return queue_.due(); }
  size_t queued() const override { return queue_.size(); }
  std::string next() override { return queue_.next(); }
  Delivery deliver(const std::string& document, const std::atomic<bool>& /*must_end*/) override {
    const std::string_view text = std::string_view(document).substr(1);
    (document.starts_with(kLine) ? write_ : warn_)(text);
    return {};
  }
  size_t settle(Outcome /*outcome*/, Clock::time_point /*now*/) override {
    queue_.remove_taken();
    return 0;
  }

 private:
  // Before each text, the hook it is for.
  static constexpr const char* kLine = "l";
  static constexpr const char* kComplaint = "c";

  LogForm form_;
  std::function<void(std::string_view)> write_;
  std::function<void(std::string_view)> warn_;
  DocumentQueue queue_;
};

class Webhook final : public HttpReceiver {
 public:
  Webhook(ReceiverUrl target, const NotifierOptions& options)
      : HttpReceiver(std::move(target), options.timeout),
        queue_(options.queue_size, options.give_up_after) {}

  std::string kind() const override { return "webhook"; }

  size_t take(const AlertUpdate& update, Clock::time_point now) override {
    if (update.changes.empty()) return 0;
    return queue_.add(alerts::alerts_json(update.moment, alerts_of(update)), now, update.number);
  }
  bool needs_every_change() const override { return true; }
  std::optional<uint64_t> first_undelivered() const override { return queue_.first_update(); }
  std::optional<Clock::time_point> due() const override { return queue_.due(); }
  size_t queued() const override { return queue_.size(); }
  size_t settle(Outcome outcome, Clock::time_point now) override {
    if (outcome == Outcome::kFailed) return queue_.give_up(now);
    queue_.remove_taken();
    return outcome == Outcome::kRefused ? 1 : 0;
  }

 private:
  std::string next_document() override { return queue_.next(); }

  DocumentQueue queue_;
};

// Later it may be different: too slow, too many at once, the server's own trouble; or a password
// that was changed there (of chat services a part of the path), and is about to be changed here.
bool is_passing(unsigned status) {
  static constexpr std::array kStatuses{401U, 403U, 404U, 407U, 408U, 410U, 429U};
  return status >= 500 || std::ranges::count(kStatuses, status) > 0;
}

// What an HTTP status means for the sender.
Delivery delivery_of(const ReceiverUrl& target, const Result<Answer>& answer) {
  if (!answer) return {Outcome::kFailed, answer.error().message};
  const unsigned status = answer->status;
  if (status >= 200 && status < 300) return {};
  std::string trouble = trf("{}: expected an answer of 200 to 299, found {}", target.shown, status);
  if (repeats_secret(answer->body, target)) {
    trouble += tr(": its text is left out, since it repeats a part of the URL");
  } else if (!answer->body.empty()) {
    trouble += ": " + shorten_end(printable(answer->body), kShownAnswer);
  }
  if (status >= 300 && status < 400)
    trouble += tr("; redirects are not followed: name the address meant");
  return {is_passing(status) ? Outcome::kFailed : Outcome::kRefused, std::move(trouble)};
}

}  // namespace

HttpReceiver::HttpReceiver(ReceiverUrl target, std::chrono::milliseconds timeout)
    : target_(std::move(target)), timeout_(timeout) {}

std::string HttpReceiver::name() const { return target().shown; }
std::string HttpReceiver::key() const { return target().key; }

void HttpReceiver::change_url(const ReceiverUrl& target, Clock::time_point /*now*/) {
  next_target_ = target;
}

std::string HttpReceiver::next() {
  if (next_target_) target_ = *std::exchange(next_target_, std::nullopt);
  return next_document();
}

Delivery HttpReceiver::deliver(const std::string& document, const std::atomic<bool>& must_end) {
  return delivery_of(target_, post_json(target_, document, timeout_, must_end));
}

std::unique_ptr<LogReceiver> log_receiver(const NotifierOptions& options) {
  return std::make_unique<Log>(options);
}

std::unique_ptr<Receiver> webhook_receiver(ReceiverUrl target, const NotifierOptions& options) {
  return std::make_unique<Webhook>(std::move(target), options);
}

// Alertmanager, by its API version 2. It forgets an alert when its end has passed, so firing ones
// are sent repeatedly with an end a few repeats away: if this process vanishes, they end by
// themselves.

namespace {

constexpr int64_t kRepeatsToLive = 4;  // as Prometheus does

int64_t unix_now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Texts of alerts are valid UTF-8 by their making.
Json json_alert(const Alert& alert, const std::string& host, const std::string& link,
                int64_t now_ns, int64_t end_ns) {
  const int64_t end = alert.ended_unix_ns.value_or(end_ns);
  const int64_t start = std::min({alert.started_unix_ns.value_or(now_ns), end, now_ns});
  Json labels = alert.labels;
  if (!host.empty() && !labels.contains("instance")) labels["instance"] = host;
  Json annotations = alert.annotations;
  annotations["summary"] = alert.summary;
  annotations["advice"] = alert.advice;
  if (alert.ending) annotations["ending"] = std::string(identifier(*alert.ending));
  Json json = {{"labels", std::move(labels)},
               {"annotations", std::move(annotations)},
               {"startsAt", rfc3339(start)},
               {"endsAt", rfc3339(end)}};
  if (!link.empty()) json["generatorURL"] = link;
  return json;
}

ReceiverUrl of_the_api(ReceiverUrl target) {
  target.path.resize(std::min(target.path.find('?'), target.path.size()));
  while (target.path.ends_with('/')) target.path.pop_back();
  target.path += "/api/v2/alerts";
  return target;
}

class Alertmanager final : public HttpReceiver {
 public:
  Alertmanager(ReceiverUrl target, const NotifierOptions& options)
      : HttpReceiver(of_the_api(std::move(target)), options.timeout),
        repeat_(options.repeat),
        link_(options.link) {}

  std::string kind() const override { return "alertmanager"; }
  // Another one knows nothing yet.
  void change_url(const ReceiverUrl& target, Clock::time_point now) override {
    HttpReceiver::change_url(of_the_api(target), now);
    if (!alerts_.empty()) changed_ = changed_.value_or(now);
  }

  size_t take(const AlertUpdate& update, Clock::time_point now) override {
    host_ = update.moment.host;
    alerts_.clear();
    for (const Alert& alert : update.alerts) {
      if (alert.state != AlertState::kPending) alerts_.push_back(alert);
    }
    // What an earlier process sent, or could not send, is sent again at the start.
    const bool is_first = std::exchange(is_first_, false) && !alerts_.empty();
    if (!update.changes.empty() || is_first) changed_ = changed_.value_or(now);
    return 0;
  }

  std::optional<Clock::time_point> due() const override {
    if (changed_) return changed_;
    const bool is_any_firing = std::ranges::any_of(
        alerts_, [](const Alert& alert) { return alert.state == AlertState::kFiring; });
    return is_any_firing ? std::optional(announced_ + repeat_) : std::nullopt;
  }
  size_t queued() const override { return changed_ ? 1 : 0; }

  size_t settle(Outcome outcome, Clock::time_point now) override {
    announced_ = now;
    if (outcome == Outcome::kFailed && !changed_) changed_ = taken_.value_or(now);
    // Refused, be it for a proxy's sake: with the next repeat, also where nothing fires any more.
    if (outcome == Outcome::kRefused && !changed_) changed_ = now + repeat_;
    return 0;
  }

 private:
  std::string next_document() override {
    taken_ = std::exchange(changed_, std::nullopt);
    const int64_t now_ns = unix_now_ns();
    const int64_t repeat_ns = std::chrono::nanoseconds(repeat_).count();
    Json alerts = Json::array();
    for (const Alert& alert : alerts_)
      alerts.push_back(
          json_alert(alert, host_, link_, now_ns, now_ns + kRepeatsToLive * repeat_ns));
    return alerts.dump(-1, ' ', true, Json::error_handler_t::replace);
  }

  std::chrono::milliseconds repeat_;
  std::string link_;
  std::string host_;
  std::vector<Alert> alerts_;
  std::optional<Clock::time_point> changed_;  // since when it lacks the newest
  std::optional<Clock::time_point> taken_;    // the same, of what is on its way
  Clock::time_point announced_;
  bool is_first_ = true;
};

}  // namespace

std::unique_ptr<Receiver> alertmanager_receiver(ReceiverUrl target,
                                                const NotifierOptions& options) {
  return std::make_unique<Alertmanager>(std::move(target), options);
}

}  // namespace vram::alerts
