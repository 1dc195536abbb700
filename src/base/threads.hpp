// DetachableThread: a thread for work that may hang; its owner waits for it at most until a
// deadline. Use an object from one thread at a time.
#pragma once

#include "base/result.hpp"

#include <chrono>
#include <functional>
#include <future>
#include <thread>

namespace vram {

class DetachableThread {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts `work` immediately. It must own everything that it uses, since it may outlive this
  // object.
  explicit DetachableThread(std::function<void()> work);
  // In a program of someone else: as start_background_thread().
  [[nodiscard]] static Result<DetachableThread> start_in_background(std::function<void()> work);
  DetachableThread(DetachableThread&&) = default;
  DetachableThread& operator=(DetachableThread&&) = delete;
  // Leaves behind a thread that was not joined.
  ~DetachableThread();

  // Returns true if the work has ended, `work` is destroyed, and the thread runs no more code. (A
  // flag set at the end of the work would be too early: the thread may still destroy what it owns
  // while the program destroys its globals.)
  [[nodiscard]] bool join_until(Clock::time_point deadline);
  [[nodiscard]] bool join_for(Clock::duration timeout) {
    return join_until(Clock::now() + timeout);
  }

 private:
  DetachableThread() = default;
  std::future<void> ended_;
  std::thread thread_;
};

// Threads that vram starts in a program of someone else.

// Starts a thread that blocks all signals except those that report its own crash. If a write
// exceeds a limit, the signal (SIGXFSZ, SIGPIPE) stays pending and the write fails. kIo: the system
// refuses to start a thread (a limit of processes or memory). Throws nothing.
[[nodiscard]] Result<std::thread> start_background_thread(std::function<void()> work);

}  // namespace vram
