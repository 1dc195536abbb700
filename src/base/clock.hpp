// Reads the system's clocks.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <ctime>

namespace vram {

// CLOCK_MONOTONIC and CLOCK_REALTIME are usually read without a system call.
inline int64_t clock_ns(clockid_t clock) {
  timespec now{};
  (void)clock_gettime(clock, &now);
  return now.tv_sec * kSignedSecondNs + now.tv_nsec;
}

}  // namespace vram
