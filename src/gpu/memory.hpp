// Memory: the interface between allocators and the memory of GPUs: the CUDA driver's (cuda/), the
// simulated GPU's (sim/). Calls never throw and never block longer than the driver's own call. A
// Status is all that a driver says; what it means in words is the caller's business.
//
// An abstract class rather than a concept: a driver call takes microseconds, compared with which a
// virtual call costs nothing, and replays call the simulated GPU only where an allocator's memory
// grows, shrinks or passes between streams. wrapped.hpp passes all calls through one function.
//
// Rules once for all: sizes and addresses are bytes; addresses are never 0; out-parameters are
// written only with kOk; device ordinals count from 0; a handle is a piece of physical memory of
// one device, in multiples of granularity_bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vram::gpu {

using Address = uint64_t;
using Handle = uint64_t;
using StreamHandle = uint64_t;  // 0 is the default stream
using EventHandle = uint64_t;

enum class Status : uint8_t {
  kOk,
  kOutOfMemory,   // the device (or a limit on it) has no room
  kNotReady,      // an event has not happened yet
  kInvalidValue,  // an argument that no correct program passes
  kNotSupported,
  kFault,  // the device failed; nothing later on it can be trusted
};
[[nodiscard]] std::string_view to_string(Status status);

struct MemoryInfo {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
};

class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  [[nodiscard]] virtual uint32_t device_count() const = 0;
  [[nodiscard]] virtual uint64_t granularity_bytes() const = 0;
  // Free and total memory of a device, as cuMemGetInfo says it.
  [[nodiscard]] virtual Status memory_info(uint32_t device, MemoryInfo* info) = 0;

  // A segment: address space and memory in one call (cudaMalloc). free_segment waits for all work
  // of the device.
  [[nodiscard]] virtual Status alloc_segment(uint32_t device, uint64_t bytes, Address* address) = 0;
  [[nodiscard]] virtual Status free_segment(uint32_t device, Address address) = 0;

  // Address space without memory; bytes in multiples of the granularity. unreserve takes the whole
  // range, with nothing mapped.
  [[nodiscard]] virtual Status reserve(uint64_t bytes, Address* address) = 0;
  [[nodiscard]] virtual Status unreserve(Address address, uint64_t bytes) = 0;
  // Memory without an address. release may come while it is mapped: the memory goes back with the
  // last unmap.
  [[nodiscard]] virtual Status create(uint32_t device, uint64_t bytes, Handle* handle) = 0;
  [[nodiscard]] virtual Status release(Handle handle) = 0;
  // Maps a whole handle at an address inside a reserved range where nothing is mapped; unreadable
  // until set_access.
  [[nodiscard]] virtual Status map(Address address, uint64_t bytes, Handle handle) = 0;
  [[nodiscard]] virtual Status set_access(Address address, uint64_t bytes, uint32_t device) = 0;
  // Whole mappings only. Does not wait for the device: the caller knows that nothing uses it any
  // more.
  [[nodiscard]] virtual Status unmap(Address address, uint64_t bytes) = 0;

  // Marks a point in a stream, which may be of another device of the process; query answers kOk
  // when the work before it is done, else kNotReady. kInvalidValue, from query and wait: there is
  // no such event any more, and no answer.
  [[nodiscard]] virtual Status record(uint32_t device, StreamHandle stream, EventHandle* event) = 0;
  [[nodiscard]] virtual Status query(EventHandle event) = 0;
  // The host waits.
  [[nodiscard]] virtual Status wait(EventHandle event) = 0;
  // A stream waits, the host does not.
  [[nodiscard]] virtual Status stream_wait(uint32_t device, StreamHandle stream,
                                           EventHandle event) = 0;
  [[nodiscard]] virtual Status destroy(EventHandle event) = 0;
  [[nodiscard]] virtual Status synchronize(uint32_t device) = 0;
};

// The calls of Memory and of Copies (copies.hpp) as values, for code that counts them, makes them
// fail, or reports which one failed.

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
