// Values of the setting kAllocatorSetting (event.hpp), besides kVramPool.
#pragma once

#include "trace/event.hpp"
#include "trace/trace.hpp"

#include <algorithm>
#include <string_view>

namespace vram::trace {

// Each block is a segment of its own, of exactly the recorded size: the recording states nothing
// about the allocator that served it.
inline constexpr std::string_view kUnknownAllocator = "unknown";

[[nodiscard]] inline bool has_unknown_allocator(const Trace& trace) {
  return std::ranges::any_of(trace.settings, [](const Setting& setting) {
    return setting.key == kAllocatorSetting && setting.value == kUnknownAllocator;
  });
}

}  // namespace vram::trace
