// A mutex that a fork waits for, so that what it guards is whole in the child, too. While it is
// held, nothing may be waited for. Objects of it live for ever.
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
