// The receivers there are: a log, a webhook, an Alertmanager.
#pragma once

#include "alerts/delivery/http_client.hpp"
#include "alerts/delivery/notifier.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace vram::alerts {

// Receiver: decides what one receiver of alerts gets next, and delivers it. Each has a
// DeliveryWorker.
//
// Used by one thread at a time, except deliver(), which may block: it is called without the
// worker's lock, and touches nothing that the other functions change.

using Clock = std::chrono::steady_clock;

enum class Outcome : uint8_t {
  kDelivered,
  kFailed,   // will be retried
  kRefused,  // the receiver will never accept it
};

struct Delivery {
  Outcome outcome = Outcome::kDelivered;
  std::string trouble;  // why it was not delivered
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  [[nodiscard]] virtual std::string kind() const = 0;
  [[nodiscard]] virtual std::string name() const = 0;
  // Distinguishes it from the others, for a later process too; reveals no secret.
  [[nodiscard]] virtual std::string key() const { return name(); }
  // Changes the URL for the next document; a running delivery is not affected. Has no effect
  // without a URL.
  virtual void change_url(const ReceiverUrl& /*target*/, Clock::time_point /*now*/) {}

  // Queues what is to be delivered. Returns how many documents were dropped to make room.
  virtual size_t take(const AlertUpdate& update, Clock::time_point now) = 0;
  // From when on there is something to deliver; nothing: there is not.
  [[nodiscard]] virtual std::optional<Clock::time_point> due() const = 0;
  [[nodiscard]] virtual size_t queued() const = 0;
  // Whether a change that is not delivered is lost, for example by a restart.
  [[nodiscard]] virtual bool needs_every_change() const { return false; }
  // The number of the oldest undelivered update; nothing: all are delivered.
  [[nodiscard]] virtual std::optional<uint64_t> first_undelivered() const { return std::nullopt; }
  // Returns the document to deliver now; call it when due.
  [[nodiscard]] virtual std::string next() = 0;
  virtual Delivery deliver(const std::string& document, const std::atomic<bool>& must_end) = 0;
  // How that went. How many documents are given up.
  virtual size_t settle(Outcome outcome, Clock::time_point now) = 0;
};

// Writes a line for each alert that begins or ends, and warnings about other receivers.
class LogReceiver : public Receiver {
 public:
  // How many were dropped to make room.
  virtual size_t take_warning(const std::string& message, Clock::time_point now) = 0;
};

// One that documents are POSTed to. next() alone, on the worker's thread, changes the address that
// deliver() reads.
class HttpReceiver : public Receiver {
 public:
  HttpReceiver(ReceiverUrl target, std::chrono::milliseconds timeout);
  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::string key() const override;
  void change_url(const ReceiverUrl& target, Clock::time_point now) override;
  [[nodiscard]] std::string next() final;
  Delivery deliver(const std::string& document, const std::atomic<bool>& must_end) final;

 private:
  [[nodiscard]] virtual std::string next_document() = 0;
  // Of the next document.
  [[nodiscard]] const ReceiverUrl& target() const { return next_target_ ? *next_target_ : target_; }

  ReceiverUrl target_;
  std::optional<ReceiverUrl> next_target_;
  std::chrono::milliseconds timeout_;
};

[[nodiscard]] std::unique_ptr<LogReceiver> log_receiver(const NotifierOptions& options);
// POSTs a vram.alerts/1 document with the alerts that begin or end in a sample, in order.
[[nodiscard]] std::unique_ptr<Receiver> webhook_receiver(ReceiverUrl target,
                                                         const NotifierOptions& options);
// POSTs all firing and recently resolved alerts to /api/v2/alerts: when one changes, and again
// before the firing ones expire there. Failed documents are not queued: the next try sends the
// state of that time.
[[nodiscard]] std::unique_ptr<Receiver> alertmanager_receiver(ReceiverUrl target,
                                                              const NotifierOptions& options);

// DocumentQueue: documents that wait for delivery, the oldest first, limited in number and age. Use
// it from one thread at a time.
class DocumentQueue {
 public:
  using Clock = std::chrono::steady_clock;

  DocumentQueue(size_t max_size, std::chrono::milliseconds max_age)
      : max_size_(max_size), max_age_(max_age) {}

  // How many were dropped to make room: the oldest. `update`: 0 where it is of none.
  size_t add(std::string text, Clock::time_point now, uint64_t update = 0) {
    documents_.push_back({std::move(text), now, ++count_, update});
    const size_t dropped = documents_.size() > max_size_ ? documents_.size() - max_size_ : 0;
    for (size_t i = 0; i < dropped; ++i) documents_.pop_front();
    return dropped;
  }

  [[nodiscard]] size_t size() const { return documents_.size(); }
  [[nodiscard]] std::optional<Clock::time_point> due() const {
    return documents_.empty() ? std::nullopt : std::optional(documents_.front().since);
  }

  // The update number of the oldest document.
  [[nodiscard]] std::optional<uint64_t> first_update() const {
    const auto found =
        std::ranges::find_if(documents_, [](const Document& each) { return each.update != 0; });
    return found == documents_.end() ? std::nullopt : std::optional(found->update);
  }

  // There is one.
  [[nodiscard]] const std::string& next() {
    taken_ = documents_.front().number;
    return documents_.front().text;
  }

  // What next() gave is done with; it may have been dropped meanwhile.
  void remove_taken() {
    if (!documents_.empty() && documents_.front().number == taken_) documents_.pop_front();
  }

  // How many had waited for too long.
  size_t give_up(Clock::time_point now) {
    size_t dropped = 0;
    for (; !documents_.empty() && now - documents_.front().since > max_age_; ++dropped)
      documents_.pop_front();
    return dropped;
  }

 private:
  struct Document {
    std::string text;
    Clock::time_point since;
    size_t number = 0;
    uint64_t update = 0;
  };
  size_t max_size_;
  std::chrono::milliseconds max_age_;
  std::deque<Document> documents_;
  size_t count_ = 0;
  size_t taken_ = 0;
};

}  // namespace vram::alerts
