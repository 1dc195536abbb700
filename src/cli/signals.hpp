// The signals that a program in the background is driven by, as something to wait for: kept from
// interrupting anything, and taken when their time has come.
//
// Threads that begin later are spared them, too: make this before they do.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>

namespace vram::cli {

enum class ServiceRequest : uint8_t {
  kEnd,
  kRelease,
  kReload
};  // SIGTERM or SIGINT, SIGUSR1, SIGHUP

class ServiceSignals {
 public:
  ServiceSignals();
  ServiceSignals(const ServiceSignals&) = delete;
  ServiceSignals& operator=(const ServiceSignals&) = delete;
  ~ServiceSignals();

  // Readable while a signal waits.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  // Takes one; nothing where none waits.
  [[nodiscard]] std::optional<ServiceRequest> take() const;

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

// The signals of vram top, taken as they come through a descriptor and not in the midst of
// something. Threads that begin later are spared them, too: make this before they do.

class TopSignals {
 public:
  TopSignals();
  TopSignals(const TopSignals&) = delete;
  TopSignals& operator=(const TopSignals&) = delete;
  ~TopSignals();

  [[nodiscard]] int fd() const { return fd_; }
  // The next that waits; 0: none does.
  [[nodiscard]] int next() const;

 private:
  int fd_ = -1;
  sigset_t before_{};
};

// Requests to release the driver: a signal (SIGUSR1), sent to monitoring programs before a driver
// is unloaded or a device is repartitioned. The signal is blocked, and is read while the program
// waits for its next tick: immediately, unless a driver call hangs.
//
// Threads that are started later inherit the blocked signal: create this before them.

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
