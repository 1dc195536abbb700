// A mutex that a fork waits for, so that the data it guards is consistent in the child, too. Never
// block while holding it. Its objects are never destroyed.
#pragma once

#include <mutex>

namespace vram::record {

class ForkLock {
 public:
  ForkLock();
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static void lock_all();
  static void unlock_all();
  std::mutex mutex_;
  ForkLock* next_ = nullptr;
};

}  // namespace vram::record
