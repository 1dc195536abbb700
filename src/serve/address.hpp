// Addresses on which the server listens (--listen): an IP address and a port. Pure functions; no
// name lookups.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace vram::serve {

struct Address {
  std::string ip;
  uint16_t port = 0;            // 0: the kernel chooses one
  bool may_be_missing = false;  // a machine without this address is no error

  [[nodiscard]] std::string text() const;  // "127.0.0.1:9877", "[::1]:9877"
};

inline constexpr uint16_t kDefaultPort = 9877;

// "127.0.0.1:9877", "[::1]:9877", "localhost:9877"; without ":PORT" it is 9877.
[[nodiscard]] Result<Address> parse_address(std::string_view text);

[[nodiscard]] bool is_ip_address(std::string_view text);

// Returns whether only this machine can reach it: 127.0.0.0/8 and ::1. False for an invalid
// address.
[[nodiscard]] bool is_loopback(std::string_view ip);

}  // namespace vram::serve
