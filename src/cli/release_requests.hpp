// Requests to release the driver: a signal (SIGUSR1), sent to monitoring programs before a driver
// is unloaded or a device is repartitioned. The signal is blocked, and is read while the program
// waits for its next tick: immediately, unless a driver call hangs.
//
// Threads that are started later inherit the blocked signal: create this before them.
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

  // Returns true if the signal came, false at the given time.
  [[nodiscard]] bool wait_until(std::chrono::steady_clock::time_point time) const;

 private:
  sigset_t signal_{};
  sigset_t before_{};
};

}  // namespace vram::cli
