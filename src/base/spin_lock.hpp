// SpinLock: for sections that are short, or short but for a rare exception. A thread that has to
// wait spins for some microseconds, then sleeps in between: the holder may have lost its core, or
// wait for the driver. Giving it back is a plain store, so a lock that nobody else wants costs one
// atomic exchange. Not fair. Meets Lockable: std::lock_guard takes it.
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
