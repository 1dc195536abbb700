#include "cli/service_signals.hpp"

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

}  // namespace vram::cli
