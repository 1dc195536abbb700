#include "show/draw/timeline_plot.hpp"

#include <algorithm>

namespace vram::show {
namespace {

constexpr int kColumnsPerTick = 12;

}  // namespace

int TimeScale::column_of(int64_t time_ns) const {
  const double place = static_cast<double>(time_ns) / static_cast<double>(end_ns) * columns;
  return static_cast<int>(std::clamp(place, 0.0, static_cast<double>(columns - 1)));
}

std::vector<PlotColumn> gather(std::span<const TimelinePoint> points, const TimeScale& scale) {
  std::vector<PlotColumn> columns(static_cast<size_t>(scale.columns));
  for (size_t i = 0; i < points.size(); ++i) {
    const int first = scale.column_of(points[i].time_ns);
    const bool is_last = i + 1 == points.size();
    const int end = is_last ? scale.columns : scale.column_of(points[i + 1].time_ns);
    for (int column = first; column < std::max(end, first + 1); ++column) {
      PlotColumn& target = columns[static_cast<size_t>(column)];
      target.active_bytes = std::max(target.active_bytes, points[i].active_bytes);
      target.reserved_bytes = std::max(target.reserved_bytes, points[i].reserved_bytes);
    }
  }
  return columns;
}

std::vector<PlotMark> axis_ticks(bool has_time, const TimeScale& scale) {
  const auto end = static_cast<uint64_t>(scale.end_ns);
  const int most = scale.columns / kColumnsPerTick;
  std::vector<PlotMark> marks;
  for (const Tick& tick : has_time ? time_ticks(end, most) : count_ticks(end, most)) {
    marks.push_back({scale.column_of(static_cast<int64_t>(tick.value)), tick.label, Style::kFaint});
  }
  return marks;
}

}  // namespace vram::show
