// Notifier: sends alerts to the log, webhooks and Alertmanagers.
//
//     Judge ──▶ publish() ──▶ a queue for each receiver ──▶ its own thread ──▶ log, HTTP
//
// May be called from any thread. publish() only copies the update into bounded queues: a receiver
// that hangs delays no other.
#pragma once

#include "alerts/alert.hpp"
#include "alerts/alerts_json.hpp"
#include "base/result.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vram::alerts {

enum class LogForm : uint8_t { kNone, kText, kJson };

struct NotifierOptions {
  LogForm log = LogForm::kText;
  // `write` gets one line for each alert, without a newline; `warn` gets messages about failing
  // receivers. Both are called on one thread of the notifier; if a call hangs, even after the
  // notifier's end, so they must own what they use. Empty: disabled.
  std::function<void(std::string_view)> write;
  std::function<void(std::string_view)> warn;
  std::vector<std::string> webhooks;       // URLs
  std::vector<std::string> alertmanagers;  // URLs, a path before /api/v2/alerts allowed
  std::string link;  // where people can look: "http://node17:9877/"; empty: nowhere

  // Timeouts and limits; tests use other values.
  std::chrono::milliseconds timeout{10'000};     // of one exchange
  std::chrono::milliseconds first_pause{1'000};  // before the second try; it doubles each time
  std::chrono::milliseconds max_pause{60'000};
  std::chrono::milliseconds give_up_after{3'600'000};  // a webhook's document is dropped then
  std::chrono::milliseconds repeat{60'000};            // firing alerts, to Alertmanagers
  size_t queue_size = 256;  // documents and lines not yet taken; the oldest is dropped for more
};

// The alerts of one sample.
struct AlertUpdate {
  AlertsMoment moment;
  std::vector<AlertChange> changes;
  std::vector<Alert> alerts;  // all there are: Judge::alerts()
  uint64_t number = 0;        // of those with changes: one more each time
};

// By receiver: the number of the first update that it may not have got. Only for receivers that
// need every change; the others get the current state.
using Undelivered = std::map<std::string, uint64_t>;

// How a receiver does.
struct ReceiverState {
  std::string kind;  // "log", "webhook", "alertmanager"
  std::string name;  // its address without secrets
  uint64_t delivered = 0;
  uint64_t failed = 0;   // tries
  uint64_t dropped = 0;  // documents that were never delivered
  size_t queued = 0;
  std::string trouble;  // of the last try; empty: it went well
};

class DeliveryWorker;

class Notifier {
 public:
  // Errors name the URL that can't be one.
  [[nodiscard]] static Result<std::unique_ptr<Notifier>> open(const NotifierOptions& options);
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;
  ~Notifier();  // as close()

  // Delivers queued updates for at most a second, then ends; a hanging thread is detached.
  void close();
  // Writes a message to the log receiver, as for failing receivers.
  void warn(const std::string& message);

  // Call it after each sample, or only after samples with changes; without changes it costs almost
  // nothing.
  void publish(const AlertUpdate& update);
  // Another URL for a webhook or an Alertmanager, counted from 0 in the order of the options, the
  // webhooks first. With an error the old one stays.
  [[nodiscard]] Result<> change_url(size_t number, const std::string& url);
  [[nodiscard]] std::vector<ReceiverState> receivers() const;

  // `next`: the number of the next update.
  [[nodiscard]] Undelivered undelivered(uint64_t next) const;
  // Notifications of an earlier process, the oldest first: each receiver gets what it had not
  // accepted. A receiver that did not exist then gets what is owed to those that no longer exist:
  // it may be one of them with another URL.
  void publish_again(const std::vector<AlertUpdate>& updates, const Undelivered& undelivered);

 private:
  explicit Notifier(std::vector<std::shared_ptr<DeliveryWorker>> workers);
  std::vector<std::shared_ptr<DeliveryWorker>> workers_;
  bool is_closed_ = false;
};

// Outbox: changes of alerts until all receivers have got them, so that a later process can deliver
// the rest. Bounded: the oldest are dropped. A value; use it from one thread at a time.
class Outbox {
 public:
  // By the next number.
  void add(const AlertsMoment& moment, std::vector<AlertChange> changes);
  [[nodiscard]] uint64_t next_number() const { return next_number_; }

  // Drops updates that all receivers have got.
  void settle(const Undelivered& undelivered);
  [[nodiscard]] bool empty() const { return updates_.empty(); }

  // Converts the updates and their undelivered receivers to text; and back, the oldest update
  // first.
  [[nodiscard]] std::string save(const Undelivered& undelivered) const;
  struct Restored {
    std::vector<AlertUpdate> update;
    Undelivered undelivered;
  };
  [[nodiscard]] Result<Restored> restore(const std::string& saved);

 private:
  std::deque<AlertUpdate> updates_;
  uint64_t next_number_ = 1;
};

}  // namespace vram::alerts
