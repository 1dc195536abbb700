// The timeline: the report's slices gathered into as many columns as the terminal has, with the
// moments that matter.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "show/draw/page.hpp"
#include "show/draw/plot.hpp"
#include "show/names.hpp"
#include "show/report/report_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

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
                   tr("peak ") + format_bytes(requested.totals.requested_bytes), Style::kStrong});
  for (size_t i = 0; i < std::min(device.ooms.size(), kOomMarks); ++i) {
    const explain::Oom& oom = device.ooms[i];
    marks.push_back({scale.column_of(oom.moment.time_ns),
                     tr("out of memory, asked ") + format_bytes(oom.requested_bytes), Style::kBad});
  }
  const explain::Moment& reserved = device.peak.reserved;
  const int column = scale.column_of(reserved.time_ns);
  const std::string label = tr("reserved ") + format_bytes(reserved.totals.reserved_bytes);
  if (column == marks.front().column) {
    marks.front().label += tr(", ") + label;
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
  if (subject.detail.plot_rows == 0) return page.leave_out(tr("the timeline"));
  const TimeScale scale{end_of(device, subject.report.clock), page.columns() - kPlotGutter};
  Plot plot;
  plot.max_rows = subject.detail.plot_rows;
  plot.columns = gather(timeline_of(device), scale);
  plot.marks = marks_of(device, scale);
  plot.x_ticks = axis_ticks(subject.report.clock == Clock::kTime, scale);
  plot.steps_title = tr("   step");
  plot.steps = steps_of(device, scale);
  page.blank();
  Line legend(tr("TIMELINE  "), Style::kHeading);
  legend.add("█", Style::kActive)
      .add(tr(" active  "))
      .add("░", Style::kReserved)
      .add(tr(" reserved, not active"));
  page.add(std::move(legend));
  page.add(draw_plot(plot));
}

// Steps: their peaks, what grows from one to the next, and the phases inside.

namespace {

using explain::Growth;
using explain::GrowthKind;
using explain::Step;
using explain::Steps;

constexpr size_t kPhases = 8;
constexpr int kBesideSpark = 64;  // columns

std::span<const Step> steady(const Steps& steps) {
  const std::span<const Step> all = steps.steps;
  return all.subspan(std::min<size_t>(steps.warmup_count, all.size()));
}

void draw_memory_curve(std::string_view name, uint64_t Step::* field, const Steps& steps,
                       const Page& page, Table& table) {
  std::vector<uint64_t> values;
  values.reserve(steps.steps.size());
  for (const Step& step : steps.steps) values.push_back(step.*field);
  std::vector<uint64_t> steady_values;
  steady_values.reserve(steps.steps.size());
  for (const Step& step : steady(steps)) steady_values.push_back(step.*field);
  const int columns = std::clamp(page.columns() - kBesideSpark, 0, static_cast<int>(values.size()));
  const std::string spark = page.options().bars ? sparkline(values, columns) : "";
  table.add_row({Line(name), Line(format_bytes(values.front())),
                 Line(format_bytes(median_of(std::move(steady_values)))),
                 Line(format_bytes(values.back())), Line(format_bytes(std::ranges::max(values))),
                 Line(spark, Style::kActive)});
}

std::string_view words(GrowthKind kind) {
  switch (kind) {
    case GrowthKind::kLeak:
      return tr("leak");
    case GrowthKind::kOneOff:
      return tr("grew once");
    case GrowthKind::kBoundedCache:
      return tr("bounded");
    case GrowthKind::kUndecided:
      return tr("undecided");
  }
  return "";
}

void draw_growth(const std::vector<Growth>& growths, size_t limit, Page& page) {
  Table table({{Align::kRight}, {}, {Align::kLeft, Shrink::kFront}, {Align::kLeft, Shrink::kEnd}});
  for (const Growth& growth : std::span(growths).first(std::min(growths.size(), limit))) {
    const bool leak = growth.kind == GrowthKind::kLeak;
    const int64_t per_step = std::llround(growth.bytes_per_step);
    const std::string rate =
        growth.kind == GrowthKind::kOneOff ? "" : format_bytes_signed(per_step) + tr(" a step");
    table.add_row(
        {Line(rate, leak ? Style::kBad : Style::kPlain),
         Line(words(growth.kind), leak ? Style::kBad : Style::kFaint), Line(printable(growth.site)),
         Line(trf("{} in {}", format_bytes(growth.live_bytes), counted(growth.live_count, "block")),
              Style::kFaint)});
  }
  page.add(table.draw(2, page.columns()));
  const size_t default_count = std::min(growths.size(), Detail().growths);
  if (limit < default_count)
    page.leave_out(counted(default_count - limit, "holder") + tr(" that grow"));
}

void draw_step_table(const Steps& steps, Page& page) {
  Table table({{},
               {.align = Align::kRight, .may_go = true},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight},
               {}});
  const auto head = [](std::string_view text) { return Line(text, Style::kFaint); };
  table.add_row(
      {Line(), head(tr("first")), head(tr("median")), head(tr("last")), head(tr("largest"))});
  draw_memory_curve(tr("peak requested"), &Step::peak_requested_bytes, steps, page, table);
  draw_memory_curve(tr("peak reserved"), &Step::peak_reserved_bytes, steps, page, table);
  draw_memory_curve(tr("alive at the end"), &Step::end_requested_bytes, steps, page, table);
  page.add(table.draw(2, page.columns()));
}

std::string summary(const Steps& steps) {
  std::vector<int64_t> durations;
  durations.reserve(steps.steps.size());
  for (const Step& step : steady(steps)) durations.push_back(step.end_ns - step.begin_ns);
  std::string text = counted(steps.steps.size(), "step");
  if (steps.warmup_count == 1) text += tr(", the first as warm-up");
  if (steps.warmup_count > 1) {
    text += trf(", the first {} as warm-up", format_count(steps.warmup_count));
  }
  const int64_t typical = median_of(std::move(durations));
  if (typical > 0) text += trf(", {} each", format_duration_ns(typical));
  if (!steps.evidence.empty()) text += " · " + printable(steps.evidence);
  return text;
}

}  // namespace

void draw_steps(const Subject& subject, Page& page) {
  const Steps& steps = subject.device.steps;
  if (steps.steps.empty() && steps.evidence.empty()) return;
  if (!subject.detail.has_steps) return page.leave_out(tr("steps"));
  if (steps.steps.empty()) {
    page.heading(tr("STEPS"), tr("none found · ") + printable(steps.evidence));
    return;
  }
  page.heading(tr("STEPS"), summary(steps));
  if (subject.detail.has_step_table)
    draw_step_table(steps, page);
  else
    page.leave_out(tr("the table of steps"));
  if (!subject.device.growth.empty())
    draw_growth(subject.device.growth, subject.detail.growths, page);
}

void draw_phases(const Subject& subject, Page& page) {
  const auto& phases = subject.device.steps.phases;
  if (phases.empty()) return;
  if (!subject.detail.has_phases) return page.leave_out(tr("phases of a step"));
  page.heading(tr("PHASES"), tr("of a step, medians over the steady ones"));
  Table table({{Align::kLeft, Shrink::kFront},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight}});
  const auto head = [](std::string_view text) { return Line(text, Style::kFaint); };
  table.add_row(
      {Line(), head(tr("takes")), head(tr("peak")), head(tr("leaves")), head(tr("asks for"))});
  for (const explain::Phase& phase : std::span(phases).first(std::min(phases.size(), kPhases))) {
    table.add_row(
        {Line(printable(phase.name)), Line(time_text(subject.report.clock, phase.duration_ns)),
         Line(format_bytes(phase.peak_bytes)), Line(format_bytes_signed(phase.delta_bytes)),
         Line(format_bytes(phase.allocated_bytes))});
  }
  page.add(table.draw(2, page.columns()));
}

}  // namespace vram::show
