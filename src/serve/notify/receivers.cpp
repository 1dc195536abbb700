#include "serve/notify/receivers.hpp"

#include "base/text.hpp"
#include "serve/notify/document_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace vram::serve::notify {
namespace {

constexpr int kShownAnswer = 200;  // columns of what a receiver says

std::vector<watch::Alert> alerts_of(const AlertUpdate& update) {
  std::vector<watch::Alert> alerts;
  for (const watch::AlertChange& change : update.changes) alerts.push_back(change.alert);
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
    for (const watch::AlertChange& change : update.changes) {
      dropped += queue_.add(
          kLine + (form_ == LogForm::kJson ? show::alert_log_json(update.moment, change.alert)
                                           : show::alert_log_text(update.moment, change.alert)),
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
  Webhook(Target target, const NotifierOptions& options)
      : HttpReceiver(std::move(target), options.timeout),
        queue_(options.queue_size, options.give_up_after) {}

  std::string kind() const override { return "webhook"; }

  size_t take(const AlertUpdate& update, Clock::time_point now) override {
    if (update.changes.empty()) return 0;
    return queue_.add(show::alerts_json(update.moment, alerts_of(update)), now, update.number);
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

// What an HTTP status means for whoever posted.
Delivery delivery_of(const Target& target, const Result<Answer>& answer) {
  if (!answer) return {Outcome::kFailed, answer.error().message};
  const unsigned status = answer->status;
  if (status >= 200 && status < 300) return {};
  std::string trouble =
      fmt::format("{}: expected an answer of 200 to 299, found {}", target.shown, status);
  if (repeats_secret(answer->body, target)) {
    trouble += ": its text is left out, since it repeats a part of the URL";
  } else if (!answer->body.empty()) {
    trouble += ": " + shorten_end(printable(answer->body), kShownAnswer);
  }
  if (status >= 300 && status < 400)
    trouble += "; redirects are not followed: name the address meant";
  return {is_passing(status) ? Outcome::kFailed : Outcome::kRefused, std::move(trouble)};
}

}  // namespace

HttpReceiver::HttpReceiver(Target target, std::chrono::milliseconds timeout)
    : target_(std::move(target)), timeout_(timeout) {}

std::string HttpReceiver::name() const { return target().shown; }
std::string HttpReceiver::key() const { return target().key; }

void HttpReceiver::change_url(const Target& target, Clock::time_point /*now*/) {
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

std::unique_ptr<Receiver> webhook_receiver(Target target, const NotifierOptions& options) {
  return std::make_unique<Webhook>(std::move(target), options);
}

}  // namespace vram::serve::notify
