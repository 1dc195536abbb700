// Values of the setting kAllocatorSetting (event.hpp), besides kVramPool.
#pragma once

#include <string_view>

namespace vram::trace {

// Each block is a segment of its own, of exactly the recorded size: the recording states nothing
// about the allocator that served it.
inline constexpr std::string_view kUnknownAllocator = "unknown";

}  // namespace vram::trace
