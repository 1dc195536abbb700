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

// Over a new start of the machine its clock counts, which may be wrong: one that was set back makes
// it 0, and one that is years ahead a day.
[[nodiscard]] inline uint64_t passed_ns(const ClockReading& from, const ClockReading& to) {
  if (from.boot == to.boot && to.now_ns >= from.now_ns) return to.now_ns - from.now_ns;
  constexpr uint64_t kDayNs = uint64_t{24} * 3'600 * 1'000'000'000;
  if (to.unix_ns <= from.unix_ns) return 0;
  return std::min(static_cast<uint64_t>(to.unix_ns) - static_cast<uint64_t>(from.unix_ns), kDayNs);
}

}  // namespace vram::watch
