#include "base/detachable_thread.hpp"

#include <utility>

namespace vram {

DetachableThread::DetachableThread(std::function<void()> work) {
  std::promise<void> ended;
  ended_ = ended.get_future();
  thread_ = std::thread([work = std::move(work), ended = std::move(ended)]() mutable {
    work();
    ended.set_value();
  });
}

DetachableThread::~DetachableThread() {
  if (thread_.joinable()) thread_.detach();
}

bool DetachableThread::join_until(Clock::time_point deadline) {
  if (!thread_.joinable()) return true;
  if (ended_.wait_until(deadline) != std::future_status::ready) return false;
  thread_.join();
  return true;
}

}  // namespace vram
