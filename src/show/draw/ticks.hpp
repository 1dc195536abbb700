// Round numbers along an axis, with their units.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vram::show {

struct Tick {
  uint64_t value = 0;
  std::string label;
};

// A vertical axis of bytes: `ticks` are rows_per_tick rows apart, the last one at the top.
struct ByteAxis {
  uint64_t top_bytes = 0;
  int rows = 0;
  int rows_per_tick = 0;
  std::vector<Tick> ticks;  // without 0
};

// The axis that wastes least room above `largest_bytes`, at most `max_rows` high (at least 4).
[[nodiscard]] ByteAxis byte_axis(uint64_t largest_bytes, int max_rows);

// Round values from 0 up to and including `end`, at most `max_ticks` (at least 2) of them. For
// times, steps are round in seconds, minutes and hours; for counts, in powers of ten.
[[nodiscard]] std::vector<Tick> time_ticks(uint64_t end_ns, int max_ticks);
[[nodiscard]] std::vector<Tick> count_ticks(uint64_t end, int max_ticks);

}  // namespace vram::show
