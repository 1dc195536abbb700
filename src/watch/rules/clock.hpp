// ClockReading: a machine's clocks at one moment, and the time between two readings, also across a
// reboot.
#pragma once

#include <algorithm>
#include <cstdint>

namespace vram::watch {

struct ClockReading {
  uint64_t now_ns = 0;  // monotonic; restarts at each boot
  int64_t unix_ns = 0;
  uint64_t boot = 0;  // identifies the boot
};

// Never negative: a clock that was set back makes it 0.
[[nodiscard]] inline uint64_t passed_ns(const ClockReading& from, const ClockReading& to) {
  if (from.boot == to.boot && to.now_ns >= from.now_ns) return to.now_ns - from.now_ns;
  return static_cast<uint64_t>(std::max<int64_t>(to.unix_ns - from.unix_ns, 0));
}

}  // namespace vram::watch
