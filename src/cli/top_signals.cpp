#include "cli/top_signals.hpp"

#include <initializer_list>
#include <sys/signalfd.h>
#include <unistd.h>

namespace vram::cli {

TopSignals::TopSignals() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int each : {SIGUSR1, SIGWINCH, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP})
    sigaddset(&taken, each);
  pthread_sigmask(SIG_BLOCK, &taken, &before_);
  fd_ = signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC);
}

TopSignals::~TopSignals() {
  (void)close(fd_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int TopSignals::next() const {
  signalfd_siginfo info{};
  return read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace vram::cli
