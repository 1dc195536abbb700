// Call: the calls of Memory (memory.hpp) and Copies (copies.hpp) as values, for code that counts
// them, makes them fail, or reports which one failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vram::gpu {

// One for each call of Memory that reaches the driver, in its order; then those of the allocator
// inside the driver, which has no call in Memory.
enum class Call : uint8_t {
  kMemoryInfo,
  kAllocSegment,
  kFreeSegment,
  kReserve,
  kUnreserve,
  kCreate,
  kRelease,
  kMap,
  kSetAccess,
  kUnmap,
  kRecord,
  kQuery,
  kWait,
  kStreamWait,
  kDestroy,
  kSynchronize,
  kMallocAsync,
  kFreeAsync,
  // And those of Copies, in its order.
  kPin,
  kUnpin,
  kCreateStream,
  kDestroyStream,
  kCopyIn,
  kCopyOut,
  kCopy,
  kFill,
};
inline constexpr size_t kCallCount = 26;

// Whether it is one of Copies.
[[nodiscard]] constexpr bool is_copies(Call call) { return call >= Call::kPin; }

// As CUDA's users know it: "cudaMalloc", "cuMemCreate", ...
[[nodiscard]] std::string_view to_string(Call call);

}  // namespace vram::gpu
