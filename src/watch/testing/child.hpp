// A real process for tests: waits until it is told to end, or to execute another program. It is
// killed with this object, and with the test.
#pragma once

#include "base/testing/waiting.hpp"

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace vram::watch::testing {

class Child {
 public:
  // Does this first.
  explicit Child(const std::function<void()>& first = [] {}) {
    sigset_t order{};
    sigset_t before{};
    sigemptyset(&order);
    sigaddset(&order, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &order, &before);  // the child must not miss it
    pid_ = fork();
    if (pid_ == 0) {
      first();
      obey(order);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid_ < 0) std::abort();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (is_reaped_) return;
    end();
    reap();
  }

  [[nodiscard]] uint32_t pid() const { return static_cast<uint32_t>(pid_); }

  // Has ended when this returns; its exit code waits for reap().
  void end() const {
    kill(pid_, SIGKILL);
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  void reap() {
    waitpid(pid_, nullptr, 0);
    is_reaped_ = true;
  }

  // Runs "sleep 1000" when this returns. The kernel sets its name before its arguments, so the
  // arguments are what to wait for.
  void become_sleep() const {
    kill(pid_, SIGUSR1);
    const auto is_sleep = [&] {
      std::string word;
      std::ifstream arguments("/proc/" + std::to_string(pid_) + "/cmdline");
      return std::getline(arguments, word, '\0') && word == "sleep";
    };
    EXPECT_TRUE(eventually(is_sleep)) << "the child did not start sleep";
  }

 private:
  [[noreturn]] static void obey(const sigset_t& order) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int number = 0;
    sigwait(&order, &number);
    execlp("sleep", "sleep", "1000", nullptr);
    _exit(1);
  }

  pid_t pid_ = 0;
  bool is_reaped_ = false;
};

}  // namespace vram::watch::testing
