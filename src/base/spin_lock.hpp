// SpinLock: for sections of a few loads and stores. A thread that has to wait long lets others run.
// Meets Lockable: std::lock_guard takes it.
#pragma once

#include <atomic>
#include <thread>

namespace vram {

class SpinLock {
 public:
  void lock() {
    for (int spins = 0; is_locked_.exchange(true, std::memory_order_acquire); ++spins) {
      while (is_locked_.load(std::memory_order_relaxed)) {
        if (++spins > kMostSpins) std::this_thread::yield();
      }
    }
  }
  [[nodiscard]] bool try_lock() { return !is_locked_.exchange(true, std::memory_order_acquire); }
  void unlock() { is_locked_.store(false, std::memory_order_release); }

 private:
  static constexpr int kMostSpins = 64;
  std::atomic<bool> is_locked_{false};
};

}  // namespace vram
