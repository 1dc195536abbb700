// Which processes can be recorded by attaching, and when one has ended. Needs no rights.
#include "attach/target.hpp"

#include "base/testing/waiting.hpp"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace vram::attach {
namespace {

// A process with a second thread.
class TwoThreads {
 public:
  TwoThreads() {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) run();
    char ready = 0;
    EXPECT_EQ(::read(ends_[0], &ready, 1), 1);
  }
  TwoThreads(const TwoThreads&) = delete;
  TwoThreads& operator=(const TwoThreads&) = delete;
  ~TwoThreads() {
    kill();
    for (const int end : ends_) (void)::close(end);
  }

  [[nodiscard]] uint32_t pid() const { return static_cast<uint32_t>(pid_); }
  void end_main_thread() const {
    EXPECT_EQ(::write(ends_[0], "e", 1), 1);
    EXPECT_TRUE(eventually([this] { return !Target::open(pid()); }));
  }
  void kill() {
    if (pid_ <= 0) return;
    (void)::kill(pid_, SIGKILL);
    (void)waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  void run() const {
    std::thread([this] {
      (void)!::write(ends_[1], "r", 1);
      for (;;) (void)::pause();
    }).detach();
    char order = 0;
    (void)!::read(ends_[1], &order, 1);
    (void)syscall(SYS_exit, 0);  // of this thread alone
  }

  std::array<int, 2> ends_{};
  pid_t pid_ = -1;
};

TEST(TargetTest, AProcessWithoutItsMainThreadRunsAndCannotBeOpened) {
  TwoThreads process;
  const auto opened = Target::open(process.pid());
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_EQ(opened->state(), TargetState::kRuns);
  process.end_main_thread();
  const auto again = Target::open(process.pid());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kUnsupported);
  EXPECT_NE(again.error().message.find("main thread"), std::string::npos) << again.error().message;
  EXPECT_EQ(opened->state(), TargetState::kRuns);
  process.kill();
  EXPECT_EQ(opened->state(), TargetState::kEnded);
}

}  // namespace
}  // namespace vram::attach
