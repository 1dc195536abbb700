// Whose memory it is, as the driver says. The current context says it of plain allocations alone: a
// stream or a pool may be another device's, and memory is freed from any context or none.
#pragma once

#include "tap/cuda.hpp"

namespace vram::tap {

inline constexpr Device kHost = -1;  // memory of the host: not recorded

// Of the calling thread's context; 0 where it has none.
[[nodiscard]] Device current_device();
// Of a stream; that of the current context for the default ones.
[[nodiscard]] Device device_of_stream(Stream stream);
// Of what a pool gave in the stream.
[[nodiscard]] Device device_of_block(DevicePointer address, Stream stream);
// Of what cuMemMap maps.
[[nodiscard]] Device device_of_handle(Handle handle);

}  // namespace vram::tap
