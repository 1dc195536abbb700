// SignalGuard: while one is alive in a thread, a handler of DumpSignals does not wait for the
// flusher there: it puts its signal off, which comes again when the last guard of the thread ends.
// Otherwise a thread that is interrupted with a lock that the flusher needs would wait for the
// flusher, and the flusher for the thread. Costs two writes to the thread's own memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace vram::record {

class SignalGuard {
 public:
  SignalGuard() { enter(); }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  ~SignalGuard() { leave(); }

  static void enter() {
    own.depth = own.depth + 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  static void leave() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    own.depth = own.depth - 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (own.depth == 0 && own.put_off != 0) raise_again();
  }
  // In a signal's handler: whether the signal will come again, once no guard is alive.
  [[nodiscard]] static bool put_off(int signal);
  // In the child of a fork: what was put off is the parent's.
  static void forget() { own.put_off = 0; }

 private:
  static void raise_again();

  struct Own {
    volatile uint32_t depth = 0;
    volatile uint64_t put_off = 0;  // a bit for each signal
  };
  // In the static block of thread-local storage: a handler's first access must not allocate.
  static __attribute__((tls_model("initial-exec"))) constinit thread_local Own own;
};

// A mutex for tables that the flusher reads, too. Hold it for moments.
class TableLock {
 public:
  void lock() {
    SignalGuard::enter();
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    SignalGuard::leave();
  }

 private:
  std::mutex mutex_;
};

}  // namespace vram::record
