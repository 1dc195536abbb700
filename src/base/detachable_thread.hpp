// DetachableThread: a thread for work that may hang, which is waited for no longer than its owner
// has patience. One thread at a time calls it.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <thread>

namespace vram {

class DetachableThread {
 public:
  using Clock = std::chrono::steady_clock;

  // Begins `work` at once, which must own all that it uses: it may outlive this object.
  explicit DetachableThread(std::function<void()> work);
  DetachableThread(DetachableThread&&) = default;
  DetachableThread& operator=(DetachableThread&&) = delete;
  // Leaves behind a thread that was not joined.
  ~DetachableThread();

  // True: the work has ended, `work` itself is destroyed, and nothing runs any more. A flag that
  // the work sets last is not as good: what the thread still owns then may be destroyed while the
  // program tears down its globals.
  [[nodiscard]] bool join_until(Clock::time_point deadline);
  [[nodiscard]] bool join_for(Clock::duration timeout) {
    return join_until(Clock::now() + timeout);
  }

 private:
  std::future<void> ended_;
  std::thread thread_;
};

}  // namespace vram
