// Stamp: a moment in the work of one stream, as a number that grows with every use and needs no
// driver call (device.hpp). Also the driver's types that the pool uses in its own namespace.
// Values.
#pragma once

#include "gpu/memory.hpp"

#include <cstdint>
#include <limits>

namespace vram::pool {

using gpu::Address;
using gpu::Status;
using gpu::StreamHandle;
using Stamp = uint64_t;
// Of all work that has been stamped so far.
inline constexpr Stamp kLastStamp = std::numeric_limits<Stamp>::max();

}  // namespace vram::pool
