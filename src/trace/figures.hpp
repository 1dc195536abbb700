// The names of the figures that vram records of a device, in bytes; docs/vtrace.md describes them.
#pragma once

#include <cstdint>
#include <string_view>

namespace vram::trace::figures {

// A figure that was known before and no longer is.
inline constexpr uint64_t kUnknown = UINT64_MAX;

// What the driver reports. A sample ends with kUsed: the others are as they were then.
inline constexpr std::string_view kTotal = "device.total_bytes";
inline constexpr std::string_view kDriver = "device.reserved_bytes";  // the driver's own
inline constexpr std::string_view kUsed = "device.used_bytes";        // without kDriver, if known
// kUsed when the process had no context on the device yet.
inline constexpr std::string_view kUsedBefore = "device.used_before_bytes";
inline constexpr std::string_view kProcess = "process.used_bytes";  // of this process
inline constexpr std::string_view kOthers = "others.used_bytes";    // of all other processes
inline constexpr std::string_view kGraphs = "process.graph_bytes";  // of graphs' memory nodes
inline constexpr std::string_view kDefaultPool = "process.default_pool_bytes";
// What a library got from the driver besides the recorded allocator: "library.libnccl.so.2". All
// of them are observed if kCallsObserved is 1.
inline constexpr std::string_view kLibrary = "library.";
inline constexpr std::string_view kCallsObserved = "library.calls_observed";
// With that: what allocators got, by their own calls or by those of the shared CUDA runtime, which
// is also the program's.
inline constexpr std::string_view kAllocatorCalls = "allocator.calls_bytes";
// Pinned host memory of the program's allocator of it, and of that what is in use. Of no device.
inline constexpr std::string_view kPinned = "host.pinned_bytes";
inline constexpr std::string_view kPinnedActive = "host.pinned_active_bytes";
// By how much the process's memory outside of the allocator grew during something:
// "growth.NCCL communicator of default_pg".
inline constexpr std::string_view kGrowth = "growth.";

// What NCCL itself counts of the communicator of a group: "nccl.default_pg".
inline constexpr std::string_view kNccl = "nccl.";

}  // namespace vram::trace::figures
