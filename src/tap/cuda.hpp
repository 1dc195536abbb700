// What this room needs of CUDA's driver API, written down anew: it is built without a toolkit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vram::tap {

using Result = int;  // CUresult
using Device = int;
using DevicePointer = unsigned long long;
using Stream = void*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;

}  // namespace vram::tap
