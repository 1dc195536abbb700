// What a recording says about its process and machine (Trace::about), as numbers.
#pragma once

#include "trace/trace.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace vram::explain {

// Nothing: not recorded, or no number.
[[nodiscard]] std::optional<uint64_t> number_about(const trace::Trace& trace, std::string_view key);

// What the device has in all.
[[nodiscard]] std::optional<uint64_t> memory_bytes_of(const trace::Trace& trace,
                                                      const trace::DeviceTrace& device);

}  // namespace vram::explain
