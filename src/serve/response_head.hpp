// The lines above a response's body. A pure function but for the clock.
#pragma once

#include "serve/http.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace vram::serve {

struct Sending {
  std::optional<size_t> body_bytes = 0;  // unknown of a stream
  bool is_chunked = false;
  bool is_gzip = false;
  bool keeps_alive = true;
};

// Includes the headers of every response: no caching, no content sniffing, no use by other sites'
// pages.
[[nodiscard]] std::string response_head(const Response& response, const Sending& sending);

}  // namespace vram::serve
