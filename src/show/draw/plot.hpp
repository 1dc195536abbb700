// Drawings of block characters: bars and sparklines one line high, and the timeline as an area
// chart. Pure functions of their input.
#pragma once

#include "show/draw/line.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vram::show {

// `share` of `columns`, from the left, to an eighth of a column. At least a sliver when the share
// is above 0.
[[nodiscard]] std::string share_bar(double share, int columns);

struct BarPart {
  uint64_t bytes = 0;
  std::string glyph;  // one column wide
  Style style = Style::kPlain;
};

// Parts of a whole side by side, in columns that always add up to `columns`; parts too small for
// one column are left out.
[[nodiscard]] Line stacked_bar(std::span<const BarPart> parts, int columns);

// The shape of a few numbers in one line of text: one character for each value, or for the maximum
// of adjacent values if there are more than `columns`. The smallest value is the lowest block;
// values within 1 % are drawn flat, since their differences are noise.
[[nodiscard]] std::string sparkline(std::span<const uint64_t> values, int columns);

// Round numbers along an axis, with their units.

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

struct PlotColumn {
  uint64_t active_bytes = 0;
  uint64_t reserved_bytes = 0;
};

// Something at one column: a label under the axis, or a pointer above the plot.
struct PlotMark {
  int column = 0;
  std::string label;
  Style style = Style::kPlain;
};

struct Plot {
  std::vector<PlotColumn> columns;
  // above, the important first: "▼ peak"; those without room are left out
  std::vector<PlotMark> marks;
  std::vector<PlotMark> x_ticks;  // below, from left to right
  std::string steps_title;        // a second row below: where each step begins
  std::vector<PlotMark> steps;
  int max_rows = 9;
  uint64_t axis_bytes = 0;  // the axis reaches at least here: plots side by side get one scale
};

inline constexpr int kPlotGutter = 11;  // columns for the axis at the left

[[nodiscard]] std::vector<Line> draw_plot(const Plot& plot);

// The course of memory over time, gathered into the columns of a plot. Pure functions; times are
// nanoseconds, or numbers of events in a recording without a clock.

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
