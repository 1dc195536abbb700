// The timeline: the report's slices gathered into as many columns as the terminal has, with the
// moments that matter.
#include "base/bytes.hpp"
#include "show/draw/plot.hpp"
#include "show/draw/timeline_plot.hpp"
#include "show/names.hpp"
#include "show/sections/sections.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::show {
namespace {

using explain::Clock;
using explain::DeviceReport;

constexpr size_t kOomMarks = 3;

// The end of the axis: a slice's value holds until the next one begins.
int64_t end_of(const DeviceReport& device, Clock clock) {
  const int64_t last = device.timeline.back().begin_ns;
  const int64_t known =
      clock == Clock::kTime ? device.duration_ns : static_cast<int64_t>(device.events);
  return std::max({last + 1, known, int64_t{1}});
}

std::vector<TimelinePoint> timeline_of(const DeviceReport& device) {
  std::vector<TimelinePoint> points;
  points.reserve(device.timeline.size());
  for (const explain::TimelineSlice& slice : device.timeline) {
    points.push_back({slice.begin_ns, slice.largest.active_bytes, slice.largest.reserved_bytes});
  }
  return points;
}

std::vector<PlotMark> marks_of(const DeviceReport& device, const TimeScale& scale) {
  const explain::Moment& requested = device.peak.requested;
  std::vector<PlotMark> marks;
  marks.push_back({scale.column_of(requested.time_ns),
                   "peak " + format_bytes(requested.totals.requested_bytes), Style::kStrong});
  for (size_t i = 0; i < std::min(device.ooms.size(), kOomMarks); ++i) {
    const explain::Oom& oom = device.ooms[i];
    marks.push_back({scale.column_of(oom.moment.time_ns),
                     "out of memory, asked " + format_bytes(oom.requested_bytes), Style::kBad});
  }
  const explain::Moment& reserved = device.peak.reserved;
  const int column = scale.column_of(reserved.time_ns);
  const std::string label = "reserved " + format_bytes(reserved.totals.reserved_bytes);
  if (column == marks.front().column) {
    marks.front().label += ", " + label;
  } else {
    marks.push_back({column, label, Style::kReserved});
  }
  return marks;
}

std::vector<PlotMark> every_nth(const std::vector<explain::Step>& steps, size_t stride,
                                const TimeScale& scale) {
  std::vector<PlotMark> marks;
  for (size_t i = 0; i < steps.size(); i += stride) {
    marks.push_back({scale.column_of(steps[i].begin_ns), std::to_string(i), Style::kFaint});
  }
  return marks;
}

bool have_room(const std::vector<PlotMark>& marks) {
  for (size_t i = 1; i < marks.size(); ++i) {
    const int end = marks[i - 1].column + static_cast<int>(marks[i - 1].label.size()) + 1;
    if (marks[i].column <= end) return false;
  }
  return true;
}

// Every step where there is room for all their numbers, else every second, fifth, tenth ...
std::vector<PlotMark> steps_of(const DeviceReport& device, const TimeScale& scale) {
  std::vector<PlotMark> marks = every_nth(device.steps.steps, 1, scale);
  for (size_t decade = 1; !have_room(marks); decade *= 10) {
    for (const size_t factor : {size_t{2}, size_t{5}, size_t{10}}) {
      marks = every_nth(device.steps.steps, factor * decade, scale);
      if (have_room(marks)) break;
    }
  }
  return marks;
}

}  // namespace

void draw_timeline(const Subject& subject, Page& page) {
  const DeviceReport& device = subject.device;
  if (device.timeline.empty()) return;
  if (subject.detail.plot_rows == 0) return page.leave_out("the timeline");
  const TimeScale scale{end_of(device, subject.report.clock), page.columns() - kPlotGutter};
  Plot plot;
  plot.max_rows = subject.detail.plot_rows;
  plot.columns = gather(timeline_of(device), scale);
  plot.marks = marks_of(device, scale);
  plot.x_ticks = axis_ticks(subject.report.clock == Clock::kTime, scale);
  plot.steps_title = "   step";
  plot.steps = steps_of(device, scale);
  page.blank();
  Line legend("TIMELINE  ", Style::kHeading);
  legend.add("█", Style::kActive)
      .add(" active  ")
      .add("░", Style::kReserved)
      .add(" reserved, not active");
  page.add(std::move(legend));
  page.add(draw_plot(plot));
}

}  // namespace vram::show
