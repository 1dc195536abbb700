// What systemd is told of the program that it started: that it serves, that it lives, that it ends.
// One datagram each to the socket that it names; without one nothing happens. Never waits.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace vram::serve {

class ServiceManager {
 public:
  // The values of NOTIFY_SOCKET and WATCHDOG_USEC; empty where they are not set.
  ServiceManager(std::string_view socket, std::string_view watchdog_us);

  void notify(std::string_view what) const;  // "READY=1"
  // How often it wants to hear "WATCHDOG=1"; nothing: not at all.
  [[nodiscard]] std::optional<std::chrono::microseconds> watchdog() const { return watchdog_; }

 private:
  std::string socket_;
  std::optional<std::chrono::microseconds> watchdog_;
};

}  // namespace vram::serve
