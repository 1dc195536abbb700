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

// Lives while a request does. Of requests within requests, the outermost counts.
class StackOfRequest {
 public:
  StackOfRequest() : is_outermost_(is_wanted().load(std::memory_order_relaxed) && current_ == 0) {
    if (is_outermost_) current_ = vram_try_capture_stack();
  }
  ~StackOfRequest() {
    if (is_outermost_) current_ = 0;
    if (has_failed_) settle();
  }
  StackOfRequest(const StackOfRequest&) = delete;
  StackOfRequest& operator=(const StackOfRequest&) = delete;

  // The calling thread's request has failed, which the allocator says with its lock held.
  static void note_failure() { has_failed_ = true; }
  // Of the calling thread; 0: it makes none, or no stacks are wanted.
  static uint32_t current() { return current_; }
  static std::atomic<bool>& is_wanted() {
    static std::atomic<bool> wanted{false};
    return wanted;
  }

 private:
  // The allocator's lock is released: a flight recorder may write its file before the program
  // learns of the failure.
  static void settle() {
    has_failed_ = false;
    vram_flight_settle();
  }

  inline static thread_local bool has_failed_ = false;
  bool is_outermost_;
  inline static thread_local uint32_t current_ = 0;
};

}  // namespace vram_torch
