// The timeline as an area chart of block characters: memory in use solid, memory reserved beyond it
// shaded, an axis of bytes at the left, one of time below, marks above. A pure function of its
// input.
#pragma once

#include "show/draw/line.hpp"
#include "show/draw/ticks.hpp"

#include <string>
#include <vector>

namespace vram::show {

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

}  // namespace vram::show
