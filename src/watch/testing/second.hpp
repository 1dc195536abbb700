// A second in nanoseconds, the unit of times in samples.
#pragma once

#include <cstdint>

namespace vram::watch {

inline constexpr uint64_t kOneSecond = 1'000'000'000;

}  // namespace vram::watch
