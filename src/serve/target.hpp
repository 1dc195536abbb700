// Parses the target of a request line: "/api/v1/processes?user=ann%20b&device=0". Pure functions
// for untrusted bytes.
#pragma once

#include "base/result.hpp"
#include "serve/http.hpp"

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
[[nodiscard]] bool is_trusted_host(std::string_view host, std::span<const std::string> names);

}  // namespace vram::serve
