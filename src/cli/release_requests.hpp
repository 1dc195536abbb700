// Requests to let go of the driver: a signal (SIGUSR1), sent to whoever watches before a driver is
// unloaded or a device divided anew. It is kept from interrupting anything, and taken while the
// program waits for its next tick: at once, unless a call of the driver hangs.
//
// Threads that begin later are spared the signal, too: make this before they do.
#pragma once

#include <chrono>
#include <csignal>

namespace vram::cli {

class ReleaseRequests {
 public:
  ReleaseRequests();
  ReleaseRequests(const ReleaseRequests&) = delete;
  ReleaseRequests& operator=(const ReleaseRequests&) = delete;
  ~ReleaseRequests();

  // True: somebody asked. False: the time has come.
  [[nodiscard]] bool wait_until(std::chrono::steady_clock::time_point time) const;

 private:
  sigset_t signal_{};
  sigset_t before_{};
};

}  // namespace vram::cli
