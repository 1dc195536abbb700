// Receiver: somebody who is told of alerts: what they are to be told next, and how. A Courier has
// one and a thread for it.
//
// One thread at a time, but for deliver(): that may wait, is called without the courier's lock, and
// touches nothing that the others change.
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
  kFailed,   // worth another try
  kRefused,  // the receiver will never take it
};

struct Delivery {
  Outcome outcome = Outcome::kDelivered;
  std::string trouble;  // where it was not delivered
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  [[nodiscard]] virtual std::string kind() const = 0;
  [[nodiscard]] virtual std::string name() const = 0;
  // Tells it from the others, for a later process, too. Nobody learns a secret from it.
  [[nodiscard]] virtual std::string key() const { return name(); }
  // Where to from the next document on; what is on its way goes on. Nothing to whoever has no
  // address.
  virtual void readdress(const Target& /*target*/, Clock::time_point /*now*/) {}

  // Keeps what is to be delivered. How many documents were dropped to make room.
  virtual size_t take(const News& news, Clock::time_point now) = 0;
  // From when on there is something to deliver; nothing: there is not.
  [[nodiscard]] virtual std::optional<Clock::time_point> due() const = 0;
  [[nodiscard]] virtual size_t queued() const = 0;
  // Whether a change that it was not told of is lost, be it by a restart.
  [[nodiscard]] virtual bool wants_each_change() const { return false; }
  // Of the oldest news that is not yet delivered; nothing: all is.
  [[nodiscard]] virtual std::optional<uint64_t> first_owed() const { return std::nullopt; }
  // What is to be delivered now; it is due.
  [[nodiscard]] virtual std::string next() = 0;
  virtual Delivery deliver(const std::string& document, const std::atomic<bool>& must_end) = 0;
  // How that went. How many documents are given up.
  virtual size_t settle(Outcome outcome, Clock::time_point now) = 0;
};

}  // namespace vram::serve::notify
