// Notifies systemd that the program is ready, alive, or stopping. Sends one datagram each to the
// socket in NOTIFY_SOCKET; has no effect without one. Never waits.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace vram::serve {

class ServiceManager {
 public:
  // The values of NOTIFY_SOCKET and WATCHDOG_USEC; empty if not set.
  ServiceManager(std::string_view socket, std::string_view watchdog_us);

  void notify(std::string_view what) const;  // "READY=1"
  // The interval for "WATCHDOG=1"; nothing: disabled.
  [[nodiscard]] std::optional<std::chrono::microseconds> watchdog() const { return watchdog_; }

 private:
  std::string socket_;
  std::optional<std::chrono::microseconds> watchdog_;
};

}  // namespace vram::serve
