// DeliveryWorker: a thread that delivers updates to one receiver, and retries after pauses that
// double.
//
//     publish() ──▶ Receiver::take ──▶ (the worker's thread) next, deliver, settle
//
// May be called from any thread; no caller waits for the receiver. A worker is shared with its
// thread, so that the thread can be detached if the receiver hangs.
#pragma once

#include "alerts/delivery/receivers.hpp"
#include "base/threads.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>

namespace vram::alerts {

struct Backoff {
  std::chrono::milliseconds first_pause;
  std::chrono::milliseconds max_pause;
};

class DeliveryWorker {
 public:
  // `warn` is called when deliveries start to fail, when documents are dropped, and when deliveries
  // work again.
  static std::shared_ptr<DeliveryWorker> start(std::unique_ptr<Receiver> receiver, Backoff backoff,
                                               std::function<void(const std::string&)> warn);

  void publish(const AlertUpdate& update);
  // Calls `change` with the receiver, whose queue it may change; the number that it dropped.
  void with_receiver(const std::function<size_t(Receiver&, Clock::time_point)>& change);
  // Retries queued documents at the new URL immediately.
  void change_url(const ReceiverUrl& target);
  [[nodiscard]] ReceiverState state() const;
  // As Receiver has them.
  [[nodiscard]] std::string key() const;
  [[nodiscard]] bool needs_every_change() const;
  [[nodiscard]] std::optional<uint64_t> first_undelivered() const;

  // Delivers queued documents without retries; then the thread ends.
  void close();
  // Waits for close() until `deadline`, then cancels the delivery. A thread that still hangs is
  // detached. Call it from one thread.
  void end_by(Clock::time_point deadline);

 private:
  DeliveryWorker(std::unique_ptr<Receiver> receiver, Backoff backoff,
                 std::function<void(const std::string&)> warn);
  void run();
  [[nodiscard]] bool wait(std::unique_lock<std::mutex>& lock);
  void deliver_one(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] std::string settle(const Delivery& delivery);
  [[nodiscard]] std::chrono::milliseconds next_pause();

  const Backoff backoff_;
  const std::function<void(const std::string&)> warn_;
  std::atomic<bool> must_end_{false};

  mutable std::mutex mutex_;  // guards what follows; never held while something is delivered
  std::condition_variable changed_;
  std::unique_ptr<Receiver> receiver_;  // deliver() is called without the lock
  ReceiverState state_;
  std::chrono::milliseconds pause_{0};
  Clock::time_point retry_;
  std::minstd_rand random_;
  bool is_closing_ = false;

  std::optional<DetachableThread> thread_;  // of the thread that started it
};

}  // namespace vram::alerts
