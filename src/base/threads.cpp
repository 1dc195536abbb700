#include "base/threads.hpp"

#include <csignal>
#include <memory>
#include <system_error>
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

Result<DetachableThread> DetachableThread::start_in_background(std::function<void()> work) {
  DetachableThread made;
  const auto ended = std::make_shared<std::promise<void>>();
  made.ended_ = ended->get_future();
  VRAM_TRY_ASSIGN(made.thread_, start_background_thread([work = std::move(work), ended] {
                    work();
                    ended->set_value();
                  }));
  return made;
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

Result<std::thread> start_background_thread(std::function<void()> work) {
  sigset_t blocked;
  sigset_t before;
  (void)sigfillset(&blocked);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
    (void)sigdelset(&blocked, signal);
  (void)pthread_sigmask(SIG_SETMASK, &blocked, &before);  // a new thread has its maker's mask
  Result<std::thread> made;
  try {
    made = std::thread(std::move(work));
  } catch (const std::system_error& error) {
    made = fail(Code::kIo,
                "expected to start a thread, found that the system refuses ({}): see with `ulimit "
                "-u` how many it allows",
                error.what());
  }
  (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made;
}

}  // namespace vram
