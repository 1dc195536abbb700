#include "record/stacks/fork_lock.hpp"

#include <pthread.h>

namespace vram::record {
namespace {

std::mutex fork_locks_mutex;  // taken before any of them
ForkLock* fork_locks = nullptr;

}  // namespace

ForkLock::ForkLock() {
  const std::lock_guard guard(fork_locks_mutex);
  if (fork_locks == nullptr) (void)pthread_atfork(&lock_all, &unlock_all, &unlock_all);
  next_ = fork_locks;
  fork_locks = this;
}

void ForkLock::lock_all() {
  fork_locks_mutex.lock();
  for (ForkLock* each = fork_locks; each != nullptr; each = each->next_) each->lock();
}

void ForkLock::unlock_all() {
  for (ForkLock* each = fork_locks; each != nullptr; each = each->next_) each->unlock();
  fork_locks_mutex.unlock();
}

}  // namespace vram::record
