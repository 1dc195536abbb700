// The lock: of one thread at a time, also when the holder sleeps.
#include "base/spin_lock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace vram {
namespace {

TEST(SpinLockTest, OneThreadAtATime) {
  SpinLock lock;
  uint64_t count = 0;  // would lose some without the lock
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50'000; ++i) {
        const std::lock_guard guard(lock);
        ++count;
        if (i % 10'000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 200'000u);
}

TEST(SpinLockTest, TryLockDoesNotWait) {
  SpinLock lock;
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
}

}  // namespace
}  // namespace vram
