// The size that tests map memory by: the driver's granularity, which is the simulator's too.
#pragma once

#include <cstdint>

namespace vram::gpu {

inline constexpr uint64_t kPage = uint64_t{2} << 20;

}  // namespace vram::gpu
