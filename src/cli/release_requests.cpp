#include "cli/release_requests.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace vram::cli {

ReleaseRequests::ReleaseRequests() {
  sigemptyset(&signal_);
  sigaddset(&signal_, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signal_, &before_);
}

ReleaseRequests::~ReleaseRequests() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool ReleaseRequests::wait_until(std::chrono::steady_clock::time_point time) const {
  using std::chrono::nanoseconds;
  constexpr int64_t kSecondNs = 1'000'000'000;
  while (true) {
    const nanoseconds left = time - std::chrono::steady_clock::now();
    const int64_t left_ns = std::max<int64_t>(left.count(), 0);
    const timespec at_most{.tv_sec = left_ns / kSecondNs, .tv_nsec = left_ns % kSecondNs};
    if (sigtimedwait(&signal_, nullptr, &at_most) == SIGUSR1) return true;
    if (errno != EINTR) return false;
  }
}

}  // namespace vram::cli
