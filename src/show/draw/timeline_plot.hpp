// The course of memory over time, gathered into the columns of a plot. Pure functions; times are
// nanoseconds, or numbers of events in a recording without a clock.
#pragma once

#include "show/draw/plot.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::show {

// The mapping from times to columns of a plot.
struct TimeScale {
  int64_t end_ns = 1;  // at least 1
  int columns = 1;

  [[nodiscard]] int column_of(int64_t time_ns) const;
};

// A value holds from its time until that of the next point.
struct TimelinePoint {
  int64_t time_ns = 0;
  uint64_t active_bytes = 0;
  uint64_t reserved_bytes = 0;
};

// The largest values within each column.
[[nodiscard]] std::vector<PlotColumn> gather(std::span<const TimelinePoint> points,
                                             const TimeScale& scale);
// Round moments below the axis, of time or of events.
[[nodiscard]] std::vector<PlotMark> axis_ticks(bool has_time, const TimeScale& scale);

}  // namespace vram::show
