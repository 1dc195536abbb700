// Finds the device of memory, by asking the driver. The current context determines it only for
// plain allocations: a stream or a pool may belong to another device, and memory may be freed from
// any context or none.
#pragma once

#include "tap/cuda.hpp"

namespace vram::tap {

inline constexpr Device kHost = -1;  // memory of the host: not recorded

// The device of the calling thread's context; 0 without one.
[[nodiscard]] Device current_device();
// Of a stream; that of the current context for the default ones.
[[nodiscard]] Device device_of_stream(Stream stream);
// The device of a block that a pool allocated in the stream.
[[nodiscard]] Device device_of_block(DevicePointer address, Stream stream);
// Of what cuMemMap maps.
[[nodiscard]] Device device_of_handle(Handle handle);

}  // namespace vram::tap
