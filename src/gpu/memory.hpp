// Memory: the seam between allocators and the memory of GPUs. Whoever satisfies this concept can
// stand under an allocator: the simulated GPU (sim/) and, later, the CUDA driver. Calls never throw
// and never block longer than the driver's own call. A Status is all that a driver says; what it
// means in words is the caller's business.
//
// Rules once for all: sizes and addresses are bytes; addresses are never 0; out-parameters are
// written only with kOk; device ordinals count from 0; a handle is a piece of physical memory of
// one device, in multiples of granularity_bytes.
#pragma once

#include <concepts>
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

template <typename M>
concept Memory = requires(M& m, uint32_t device, Address address, uint64_t bytes, Handle handle,
                          StreamHandle stream, EventHandle event, Address* address_out,
                          Handle* handle_out, EventHandle* event_out, MemoryInfo* info_out) {
  { m.device_count() } -> std::same_as<uint32_t>;
  { m.granularity_bytes() } -> std::same_as<uint64_t>;
  // Free and total memory of a device, as cuMemGetInfo says it.
  { m.memory_info(device, info_out) } -> std::same_as<Status>;

  // A segment: address space and memory in one call (cudaMalloc). free_segment waits for all work
  // of the device.
  { m.alloc_segment(device, bytes, address_out) } -> std::same_as<Status>;
  { m.free_segment(device, address) } -> std::same_as<Status>;

  // Address space without memory; bytes in multiples of the granularity. unreserve takes the whole
  // range, with nothing mapped.
  { m.reserve(bytes, address_out) } -> std::same_as<Status>;
  { m.unreserve(address, bytes) } -> std::same_as<Status>;
  // Memory without an address. release may come while it is mapped: the memory goes back with the
  // last unmap.
  { m.create(device, bytes, handle_out) } -> std::same_as<Status>;
  { m.release(handle) } -> std::same_as<Status>;
  // Maps a whole handle at an address inside a reserved range where nothing is mapped; unreadable
  // until set_access.
  { m.map(address, bytes, handle) } -> std::same_as<Status>;
  { m.set_access(address, bytes, device) } -> std::same_as<Status>;
  // Whole mappings only. Does not wait for the device: the caller knows that nothing uses it any
  // more.
  { m.unmap(address, bytes) } -> std::same_as<Status>;

  // Marks a point in a stream; query answers kOk when the work before it is done, else kNotReady.
  // kInvalidValue, from query and wait: there is no such event any more, and no answer.
  { m.record(device, stream, event_out) } -> std::same_as<Status>;
  { m.query(event) } -> std::same_as<Status>;
  { m.wait(event) } -> std::same_as<Status>;  // the host waits
  {
    m.stream_wait(device, stream, event)
  } -> std::same_as<Status>;  // a stream waits, the host does not
  { m.destroy(event) } -> std::same_as<Status>;
  { m.synchronize(device) } -> std::same_as<Status>;
};

}  // namespace vram::gpu
