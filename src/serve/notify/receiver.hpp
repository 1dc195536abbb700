// Receiver: decides what one receiver of alerts gets next, and delivers it. Each has a
// DeliveryWorker.
//
// Used by one thread at a time, except deliver(), which may block: it is called without the
// worker's lock, and touches nothing that the other functions change.
#pragma once

#include "serve/notify/http_client.hpp"
#include "serve/notify/notifier.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace vram::serve::notify {

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
  virtual void change_url(const Target& /*target*/, Clock::time_point /*now*/) {}

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

}  // namespace vram::serve::notify
