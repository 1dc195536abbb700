// A process that has copies of this one's descriptors and runs nothing, until this object dies: as
// the child of a fork before its first instruction, and a new process before it executes its
// program. No fork handlers run.
#pragma once

#include <csignal>
#include <cstdlib>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace vram {

class ForkedCopy {
 public:
  ForkedCopy() : pid_(static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, 0, 0))) {
    if (pid_ < 0) std::abort();
    if (pid_ > 0) return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) (void)pause();
  }
  ForkedCopy(const ForkedCopy&) = delete;
  ForkedCopy& operator=(const ForkedCopy&) = delete;
  ~ForkedCopy() {
    (void)kill(pid_, SIGKILL);
    (void)waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

}  // namespace vram
