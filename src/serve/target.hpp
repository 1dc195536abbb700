// Parses the target of a request line: "/api/v1/processes?user=ann%20b&device=0". Pure functions
// for untrusted bytes.
#pragma once

#include "base/result.hpp"
#include "serve/http.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vram::serve {

struct Target {
  std::string host;  // where the target names one itself ("http://host/path")
  std::string path;  // decoded
  Query query;
};

// kBadInput: neither a path nor an http address, or wrong escapes.
[[nodiscard]] Result<Target> parse_target(std::string_view text);

// The value of the first parameter of that name.
[[nodiscard]] std::optional<std::string_view> parameter(const Query& query, std::string_view name);

// Whether a header "Accept-Encoding" lets the answer be gzip.
[[nodiscard]] bool accepts_gzip(std::string_view accept_encoding);

// Whether a header "Host" names this very machine from its own point of view: localhost, below it,
// or an address that only this machine reaches; with or without a port.
[[nodiscard]] bool is_local_name(std::string_view host);

// Returns whether no web page can have caused this "Host" header by DNS rebinding: a local name, an
// IP address (a page's own name is none), or one of `names`; with or without a port; case is
// ignored.
// Whether a header Origin names the host of a header Host, or one of the names, at any port: what a
// proxy sends as Host may be another name than the browser's.
[[nodiscard]] bool is_own_origin(std::string_view origin, std::string_view host,
                                 std::span<const std::string> names);
[[nodiscard]] bool is_trusted_host(std::string_view host, std::span<const std::string> names);

// Addresses on which the server listens (--listen): an IP address and a port. Pure functions; no
// name lookups.

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

// Moments as clients name them. Pure functions.

// Nanoseconds since 1970 of "1795338845" and "1795338845.5" (seconds), "2026-11-22T09:14:05Z",
// "now", and "-90min" (before now).
[[nodiscard]] Result<int64_t> parse_when(std::string_view text, int64_t now_ns);

}  // namespace vram::serve
