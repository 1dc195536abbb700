// StackOfRequest: where in the program a thread's request for memory comes from.
//
// Taken before the request enters PyTorch's allocator, which then holds a lock. The thread that
// makes the request may hold locks of its own, which a thread with the GIL waits for: so the GIL is
// waited for a while only. PyTorch's own way, a recorder of contexts given to recordHistory(), is
// not taken: it replaces the history that a program keeps, and PyTorch's snapshots refuse contexts
// that are not of its own class.
#pragma once

#include <atomic>
#include <cstdint>
#include <vram/flight.h>
#include <vram/record.h>

namespace vram_torch {

struct RequestOfThread {
  uint32_t stack = 0;
  bool has_failed = false;
};

// Lives while a request does. Of requests within requests, the outermost counts.
class StackOfRequest {
 public:
  StackOfRequest()
      : is_outermost_(is_wanted().load(std::memory_order_relaxed) && of_thread_.stack == 0) {
    if (is_outermost_) of_thread_.stack = vram_try_capture_stack();
  }
  ~StackOfRequest() {
    if (is_outermost_) of_thread_.stack = 0;
    if (of_thread_.has_failed) settle();
  }
  StackOfRequest(const StackOfRequest&) = delete;
  StackOfRequest& operator=(const StackOfRequest&) = delete;

  // The calling thread's request has failed, which the allocator says with its lock held.
  static void note_failure() { of_thread_.has_failed = true; }
  // Of the calling thread; 0: it makes none, or no stacks are wanted.
  static uint32_t current() { return of_thread_.stack; }
  static std::atomic<bool>& is_wanted() {
    static std::atomic<bool> wanted{false};
    return wanted;
  }

 private:
  // The allocator's lock is released: a flight recorder may write its file before the program
  // learns of the failure.
  static void settle() {
    of_thread_.has_failed = false;
    vram_flight_settle();
  }

  // In the space that threads have for such variables from their start, as libvram.so's are: every
  // request and every event reads it, otherwise by a call each.
  __attribute__((tls_model("initial-exec"))) inline static thread_local RequestOfThread of_thread_;
  bool is_outermost_;
};

}  // namespace vram_torch
