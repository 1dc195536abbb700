// CallStats: how often each call was made of the simulated driver and what it took. Plain counters,
// no allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vram::gpu {

// One for each call of Memory (memory.hpp), in its order; then those of the allocator inside the
// driver, which has no call in Memory.
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
  // And those of Copies (copies.hpp), in its order.
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

struct CallStats {
  struct One {
    uint64_t count = 0;     // with those that failed
    uint64_t failed = 0;    // answered neither kOk nor kNotReady
    int64_t time_ns = 0;    // in the call itself
    int64_t waited_ns = 0;  // for the device's work, inside the call
  };
  std::array<One, kCallCount> calls;

  [[nodiscard]] const One& operator[](Call call) const { return calls[static_cast<size_t>(call)]; }
  [[nodiscard]] One& operator[](Call call) { return calls[static_cast<size_t>(call)]; }
  [[nodiscard]] uint64_t count() const;
  [[nodiscard]] int64_t time_ns() const;  // of all calls, without waiting
};

}  // namespace vram::gpu
