// The signals that a program in the background is driven by, as something to wait for: kept from
// interrupting anything, and taken when their time has come.
//
// Threads that begin later are spared them, too: make this before they do.
#pragma once

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

}  // namespace vram::cli
