// Processes for tests and benchmarks: a folder that looks like /proc, and children of this process.
#pragma once

#include "base/testing/waiting.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace vram::watch::testing {

// Files of nothing are not there: of another user, or unreadable.
struct FakeProcess {
  uint32_t pid = 0;
  std::string name = "python3";
  uint32_t parent_pid = 1;
  uint64_t start_ticks = 5000;
  uint32_t uid = 0;
  std::optional<std::string> cmdline = std::string("python3\0train.py\0", 17);
  std::optional<std::string> cgroup = "0::/user.slice/user-0.slice/session-2.scope\n";
  std::optional<std::string> environment = std::string("HOME=/root\0LANG=C\0", 18);
};

class ProcTree {
 public:
  ProcTree() {
    std::string folder = std::filesystem::temp_directory_path() / "vram-proc-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) std::abort();
    root_ = folder;
  }
  ProcTree(const ProcTree&) = delete;
  ProcTree& operator=(const ProcTree&) = delete;
  ~ProcTree() { std::filesystem::remove_all(root_); }

  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] std::string path(uint32_t pid, const std::string& file) const {
    return fmt::format("{}/{}/{}", root_, pid, file);
  }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  void remove(uint32_t pid) const { std::filesystem::remove_all(path(pid, "")); }

  void put(const FakeProcess& process) const {
    const uint32_t pid = process.pid;
    write(path(pid, "stat"),
          fmt::format("{} ({}) S {} 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 {} 7929856 1331\n",
                      pid, process.name, process.parent_pid, process.start_ticks));
    write(path(pid, "status"),
          fmt::format("Name:\t{0}\nUmask:\t0022\nPid:\t{1}\nUid:\t{2}\t{2}\t{2}\t{2}\n"
                      "Gid:\t0\t0\t0\t0\n",
                      process.name, pid, process.uid));
    if (process.cmdline) write(path(pid, "cmdline"), *process.cmdline);
    if (process.cgroup) write(path(pid, "cgroup"), *process.cgroup);
    if (process.environment) write(path(pid, "environ"), *process.environment);
  }

 private:
  std::string root_;
};

// A real process for tests: waits until it is told to end, or to execute another program. It is
// killed with this object, and with the test.
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
