// Alertmanager, by its API version 2. It forgets an alert when its end has passed, so firing ones
// are told again and again with an end a few repeats away: should we vanish, they end by
// themselves.
#include "base/bytes.hpp"
#include "base/json.hpp"
#include "serve/notify/receivers.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace vram::serve::notify {
namespace {

using watch::Alert;
using watch::AlertState;

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
  if (alert.ending) annotations["ending"] = std::string(watch::identifier(*alert.ending));
  Json json = {{"labels", std::move(labels)},
               {"annotations", std::move(annotations)},
               {"startsAt", rfc3339(start)},
               {"endsAt", rfc3339(end)}};
  if (!link.empty()) json["generatorURL"] = link;
  return json;
}

Target of_the_api(Target target) {
  target.path.resize(std::min(target.path.find('?'), target.path.size()));
  while (target.path.ends_with('/')) target.path.pop_back();
  target.path += "/api/v2/alerts";
  return target;
}

class Alertmanager final : public HttpReceiver {
 public:
  Alertmanager(Target target, const NotifierOptions& options)
      : HttpReceiver(of_the_api(std::move(target)), options.timeout),
        repeat_(options.repeat),
        link_(options.link) {}

  std::string kind() const override { return "alertmanager"; }
  // Another one knows nothing yet.
  void change_url(const Target& target, Clock::time_point now) override {
    HttpReceiver::change_url(of_the_api(target), now);
    if (!alerts_.empty()) changed_ = changed_.value_or(now);
  }

  size_t take(const AlertUpdate& update, Clock::time_point now) override {
    host_ = update.moment.host;
    alerts_.clear();
    for (const Alert& alert : update.alerts) {
      if (alert.state != AlertState::kPending) alerts_.push_back(alert);
    }
    // What a process before this one told of, or could not, is told again at the start.
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
  std::optional<Clock::time_point> changed_;  // since when it has not been told of the newest
  std::optional<Clock::time_point> taken_;    // the same, of what is on its way
  Clock::time_point announced_;
  bool is_first_ = true;
};

}  // namespace

std::unique_ptr<Receiver> alertmanager_receiver(Target target, const NotifierOptions& options) {
  return std::make_unique<Alertmanager>(std::move(target), options);
}

}  // namespace vram::serve::notify
