// Numbers in a recording's facts about its process and machine (Trace::about).
#pragma once

#include "trace/trace.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace vram::explain {

// Nothing: not recorded, or no number.
[[nodiscard]] std::optional<uint64_t> number_about(const trace::Trace& trace, std::string_view key);

// The device's total memory.
[[nodiscard]] std::optional<uint64_t> memory_bytes_of(const trace::Trace& trace,
                                                      const trace::DeviceTrace& device);

}  // namespace vram::explain
