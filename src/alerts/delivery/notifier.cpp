#include "alerts/delivery/notifier.hpp"

#include "alerts/delivery/delivery_worker.hpp"
#include "alerts/delivery/receivers.hpp"
#include "alerts/judge/saved.hpp"
#include "base/result.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace vram::alerts {
namespace {

using MakeReceiver = std::unique_ptr<Receiver> (*)(ReceiverUrl target,
                                                   const NotifierOptions& options);
using Receivers = std::vector<std::unique_ptr<Receiver>>;

Result<> add_all(const std::vector<std::string>& urls, std::string_view kind, MakeReceiver make,
                 const NotifierOptions& options, Receivers& receivers) {
  for (const std::string& url : urls) {
    auto target = usable_receiver_url(url);
    if (!target) return fail(target.error().code, "{}: {}", kind, target.error().message);
    receivers.push_back(make(std::move(*target), options));
  }
  return {};
}

void warn_to(DeliveryWorker& log, const std::string& message) {
  log.with_receiver([&](Receiver& receiver, Clock::time_point now) {
    return static_cast<LogReceiver&>(receiver).take_warning(message, now);
  });
}

}  // namespace

Result<std::unique_ptr<Notifier>> Notifier::open(const NotifierOptions& options) {
  Receivers receivers;
  auto added = add_all(options.webhooks, "webhook", webhook_receiver, options, receivers);
  if (added)
    added =
        add_all(options.alertmanagers, "Alertmanager", alertmanager_receiver, options, receivers);
  if (!added) return tl::unexpected(std::move(added.error()));

  const Backoff backoff{options.first_pause, options.max_pause};
  auto log = DeliveryWorker::start(log_receiver(options), backoff, {});
  // What goes wrong with the others is written by the log's thread: none of them waits for it.
  const auto warn = [log](const std::string& message) { warn_to(*log, message); };
  std::vector<std::shared_ptr<DeliveryWorker>> workers{std::move(log)};
  for (auto& receiver : receivers)
    workers.push_back(DeliveryWorker::start(std::move(receiver), backoff, warn));
  return std::unique_ptr<Notifier>(new Notifier(std::move(workers)));
}

Notifier::Notifier(std::vector<std::shared_ptr<DeliveryWorker>> workers)
    : workers_(std::move(workers)) {}

Notifier::~Notifier() { close(); }

// The log comes last: the others may still complain.
void Notifier::close() {
  if (std::exchange(is_closed_, true)) return;
  constexpr auto kTimeout = std::chrono::seconds(1);
  const auto deadline = Clock::now() + kTimeout;
  for (size_t i = 1; i < workers_.size(); ++i) workers_[i]->close();
  for (size_t i = 1; i < workers_.size(); ++i) workers_[i]->end_by(deadline);
  workers_[0]->close();
  workers_[0]->end_by(deadline);
}

void Notifier::warn(const std::string& message) { warn_to(*workers_[0], message); }

void Notifier::publish(const AlertUpdate& update) {
  for (const auto& worker : workers_) worker->publish(update);
}

Undelivered Notifier::undelivered(uint64_t next) const {
  Undelivered undelivered;
  for (const auto& worker : workers_) {
    if (!worker->needs_every_change()) continue;
    const auto first = worker->first_undelivered().value_or(next);
    const auto [entry, is_new] = undelivered.try_emplace(worker->key(), first);
    entry->second = std::min(entry->second, first);  // of 65,536 pairs on one host one shares a key
  }
  return undelivered;
}

void Notifier::publish_again(const std::vector<AlertUpdate>& update,
                             const Undelivered& undelivered) {
  Undelivered of_others = undelivered;
  for (const auto& worker : workers_) of_others.erase(worker->key());
  uint64_t first_of_others = std::numeric_limits<uint64_t>::max();
  for (const auto& [key, first] : of_others) first_of_others = std::min(first_of_others, first);
  for (const auto& worker : workers_) {
    if (!worker->needs_every_change()) continue;
    const auto own = undelivered.find(worker->key());
    const uint64_t first = own == undelivered.end() ? first_of_others : own->second;
    for (const AlertUpdate& one : update) {
      if (one.number >= first) worker->publish(one);
    }
  }
}

// The log is the first worker.
Result<> Notifier::change_url(size_t number, const std::string& url) {
  VRAM_CHECK(number + 1 < workers_.size());
  VRAM_TRY_ASSIGN(const auto target, usable_receiver_url(url));
  workers_[number + 1]->change_url(target);
  return {};
}

std::vector<ReceiverState> Notifier::receivers() const {
  std::vector<ReceiverState> states;
  for (const auto& worker : workers_) states.push_back(worker->state());
  return states;
}

namespace {

constexpr size_t kMaxUpdates = 256;

Json saved_updates(const AlertUpdate& update) {
  Json changes = Json::array();
  for (const AlertChange& change : update.changes) changes.push_back(to_json(change.alert));
  return {{"number", update.number},
          {"time_unix_ns", update.moment.time_unix_ns},
          {"host", update.moment.host},
          {"changes", std::move(changes)}};
}

AlertUpdate update_of(const Json& json) {
  AlertUpdate update{.moment = {.time_unix_ns = json.at("time_unix_ns"),
                                .host = json.at("host").get<std::string>()},
                     .changes = {},
                     .alerts = {},
                     .number = json.at("number")};
  for (const Json& one : json.at("changes")) {
    if (auto alert = alert_of(one)) update.changes.push_back({*std::move(alert)});
  }
  return update;
}

}  // namespace

void Outbox::add(const AlertsMoment& moment, std::vector<AlertChange> changes) {
  updates_.push_back(
      {.moment = moment, .changes = std::move(changes), .alerts = {}, .number = next_number_++});
  if (updates_.size() > kMaxUpdates) updates_.pop_front();
}

void Outbox::settle(const Undelivered& undelivered) {
  uint64_t first = next_number_;
  for (const auto& [name, number] : undelivered) first = std::min(first, number);
  while (!updates_.empty() && updates_.front().number < first) updates_.pop_front();
}

std::string Outbox::save(const Undelivered& undelivered) const {
  Json update = Json::array();
  for (const AlertUpdate& one : updates_) update.push_back(saved_updates(one));
  const Json json = {
      {"next_number", next_number_}, {"owed", undelivered}, {"news", std::move(update)}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<Outbox::Restored> Outbox::restore(const std::string& saved) {
  Restored restored;
  if (saved.empty()) return restored;
  try {
    const Json json = Json::parse(saved);
    const uint64_t next_number = json.at("next_number");
    restored.undelivered = json.at("owed").get<Undelivered>();
    for (const Json& one : json.at("news")) restored.update.push_back(update_of(one));
    next_number_ = next_number;
  } catch (const Json::exception& error) {
    return fail(Code::kBadInput, "what receivers are owed can't be restored: {}", error.what());
  }
  updates_.assign(restored.update.begin(), restored.update.end());
  return restored;
}

}  // namespace vram::alerts
