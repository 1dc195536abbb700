// Sums of the memory that libraries got from the driver, where an allocator reports its own calls:
// NCCL, cuBLAS, cuDNN, a program's extensions. Their calls come from their own code, since each
// contains CUDA's runtime; the allocators' come from their libraries or from the shared runtime,
// and are one sum. May be used from any thread.
#pragma once

#include "tap/cuda.hpp"

#include <cstdint>

namespace vram::tap {

using Owner = int;  // a library
inline constexpr Owner kNoOwner = -1;

// The library that contains this code. kNoOwner: there are too many.
[[nodiscard]] Owner owner_of(const void* code);
// Adds to the sum of the library's memory on the device, and records it.
void add_to_owner(Owner owner, Device device, int64_t bytes);

}  // namespace vram::tap
