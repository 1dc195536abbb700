// SpinLock: for critical sections that are short, with rare exceptions. A waiting thread spins for
// some microseconds and then sleeps between tries, since the holder may have lost its core or wait
// for the driver. Unlocking is a plain store, so an uncontended lock costs one atomic exchange. Not
// fair. Meets Lockable, for std::lock_guard.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace vram {

class SpinLock {
 public:
  void lock() {
    if (!try_lock()) wait();
  }
  [[nodiscard]] bool try_lock() { return !is_locked_.exchange(true, std::memory_order_acquire); }
  void unlock() { is_locked_.store(false, std::memory_order_release); }

 private:
  static constexpr int kMaxPauses = 256;  // some microseconds
  static constexpr int kMaxYields = 16;
  static constexpr std::chrono::microseconds kSpinSleep{20};

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  void wait() {
    for (int tries = 0; is_locked_.load(std::memory_order_relaxed) || !try_lock(); ++tries) {
      if (tries < kMaxPauses) {
        pause();
      } else if (tries < kMaxPauses + kMaxYields) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kSpinSleep);
      }
    }
  }

  std::atomic<bool> is_locked_{false};
};

}  // namespace vram
