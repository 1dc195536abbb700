#include "cli/signals.hpp"

#include "base/time.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <initializer_list>
#include <sys/signalfd.h>
#include <unistd.h>

namespace vram::cli {

ServiceSignals::ServiceSignals() {
  sigset_t wanted{};
  sigemptyset(&wanted);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) sigaddset(&wanted, number);
  pthread_sigmask(SIG_BLOCK, &wanted, &before_);
  descriptor_ = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
}

ServiceSignals::~ServiceSignals() {
  (void)close(descriptor_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<ServiceRequest> ServiceSignals::take() const {
  signalfd_siginfo found{};
  if (read(descriptor_, &found, sizeof found) != sizeof found) return std::nullopt;
  if (found.ssi_signo == SIGUSR1) return ServiceRequest::kRelease;
  return found.ssi_signo == SIGHUP ? ServiceRequest::kReload : ServiceRequest::kEnd;
}

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

ReleaseRequests::ReleaseRequests() {
  sigemptyset(&signal_);
  sigaddset(&signal_, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signal_, &before_);
}

ReleaseRequests::~ReleaseRequests() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool ReleaseRequests::wait_until(std::chrono::steady_clock::time_point time) const {
  using std::chrono::nanoseconds;
  while (true) {
    const nanoseconds left = time - std::chrono::steady_clock::now();
    const int64_t left_ns = std::max<int64_t>(left.count(), 0);
    const timespec at_most{.tv_sec = left_ns / kSignedSecondNs,
                           .tv_nsec = left_ns % kSignedSecondNs};
    if (sigtimedwait(&signal_, nullptr, &at_most) == SIGUSR1) return true;
    if (errno != EINTR) return false;
  }
}

}  // namespace vram::cli
