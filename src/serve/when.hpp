// Moments as clients name them. Pure functions.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string_view>

namespace vram::serve {

// Nanoseconds since 1970 of "1795338845" and "1795338845.5" (seconds), "2026-11-22T09:14:05Z",
// "now", and "-90min" (before now).
[[nodiscard]] Result<int64_t> parse_when(std::string_view text, int64_t now_ns);

}  // namespace vram::serve
