// Courier: a thread that takes news to one receiver, and tries again after pauses that double.
//
//     tell() ──▶ Receiver::take ──▶ (the courier's thread) next, deliver, settle
//
// Any thread may call everything. Whoever calls waits for no receiver. A courier is shared with its
// thread, so that one whose receiver hangs can be left behind.
#pragma once

#include "base/detachable_thread.hpp"
#include "serve/notify/receiver.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>

namespace vram::serve::notify {

struct Patience {
  std::chrono::milliseconds first_pause;
  std::chrono::milliseconds longest_pause;
};

class Courier {
 public:
  // `complain` is told when trouble begins, of what is dropped, and when all is well again.
  static std::shared_ptr<Courier> start(std::unique_ptr<Receiver> receiver, Patience patience,
                                        std::function<void(const std::string&)> complain);

  void tell(const News& news);
  // Calls `change` with the receiver, whose queue it may change; the number that it dropped.
  void with_receiver(const std::function<size_t(Receiver&, Clock::time_point)>& change);
  // What waits for another try is tried there at once.
  void readdress(const Target& target);
  [[nodiscard]] ReceiverState state() const;
  // As Receiver has them.
  [[nodiscard]] std::string key() const;
  [[nodiscard]] bool wants_each_change() const;
  [[nodiscard]] std::optional<uint64_t> first_owed() const;

  // Delivers what is queued, but tries nothing again; then its thread ends.
  void close();
  // Until `deadline` for that; then whatever is under way is broken off. What hangs nevertheless is
  // left behind. One thread calls it.
  void end_by(Clock::time_point deadline);

 private:
  Courier(std::unique_ptr<Receiver> receiver, Patience patience,
          std::function<void(const std::string&)> complain);
  void run();
  [[nodiscard]] bool wait(std::unique_lock<std::mutex>& lock);
  void deliver_one(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] std::string settle(const Delivery& delivery);
  [[nodiscard]] std::chrono::milliseconds next_pause();

  const Patience patience_;
  const std::function<void(const std::string&)> complain_;
  std::atomic<bool> must_end_{false};

  mutable std::mutex mutex_;  // guards what follows; never held while something is delivered
  std::condition_variable changed_;
  std::unique_ptr<Receiver> receiver_;  // deliver() is called without the lock
  ReceiverState state_;
  std::chrono::milliseconds pause_{0};
  Clock::time_point retry_;
  std::minstd_rand random_;
  bool is_closing_ = false;

  std::optional<DetachableThread> thread_;  // of whoever started it
};

}  // namespace vram::serve::notify
