// Steps: their peaks, what grows from one to the next, and the phases inside.
#include "base/bytes.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "show/draw/spark.hpp"
#include "show/draw/table.hpp"
#include "show/names.hpp"
#include "show/sections/sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace vram::show {
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
      return "leak";
    case GrowthKind::kOneOff:
      return "grew once";
    case GrowthKind::kBoundedCache:
      return "bounded";
    case GrowthKind::kUndecided:
      return "undecided";
  }
  return "";
}

void draw_growth(const std::vector<Growth>& growths, size_t limit, Page& page) {
  Table table({{Align::kRight}, {}, {Align::kLeft, Shrink::kFront}, {Align::kLeft, Shrink::kEnd}});
  for (const Growth& growth : std::span(growths).first(std::min(growths.size(), limit))) {
    const bool leak = growth.kind == GrowthKind::kLeak;
    const int64_t per_step = std::llround(growth.bytes_per_step);
    const std::string rate =
        growth.kind == GrowthKind::kOneOff ? "" : format_bytes_signed(per_step) + " a step";
    table.add_row({Line(rate, leak ? Style::kBad : Style::kPlain),
                   Line(words(growth.kind), leak ? Style::kBad : Style::kFaint),
                   Line(printable(growth.site)),
                   Line(fmt::format("{} in {}", format_bytes(growth.live_bytes),
                                    counted(growth.live_count, "block")),
                        Style::kFaint)});
  }
  page.add(table.draw(2, page.columns()));
  const size_t default_count = std::min(growths.size(), Detail().growths);
  if (limit < default_count)
    page.leave_out(counted(default_count - limit, "holder") + " that grow");
}

void draw_step_table(const Steps& steps, Page& page) {
  Table table({{},
               {.align = Align::kRight, .may_go = true},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight},
               {}});
  const auto head = [](std::string_view text) { return Line(text, Style::kFaint); };
  table.add_row({Line(), head("first"), head("median"), head("last"), head("largest")});
  draw_memory_curve("peak requested", &Step::peak_requested_bytes, steps, page, table);
  draw_memory_curve("peak reserved", &Step::peak_reserved_bytes, steps, page, table);
  draw_memory_curve("alive at the end", &Step::end_requested_bytes, steps, page, table);
  page.add(table.draw(2, page.columns()));
}

std::string summary(const Steps& steps) {
  std::vector<int64_t> durations;
  durations.reserve(steps.steps.size());
  for (const Step& step : steady(steps)) durations.push_back(step.end_ns - step.begin_ns);
  std::string text = counted(steps.steps.size(), "step");
  if (steps.warmup_count == 1) text += ", the first as warm-up";
  if (steps.warmup_count > 1) {
    text += fmt::format(", the first {} as warm-up", format_count(steps.warmup_count));
  }
  const int64_t typical = median_of(std::move(durations));
  if (typical > 0) text += ", " + format_duration_ns(typical) + " each";
  if (!steps.evidence.empty()) text += " · " + printable(steps.evidence);
  return text;
}

}  // namespace

void draw_steps(const Subject& subject, Page& page) {
  const Steps& steps = subject.device.steps;
  if (steps.steps.empty() && steps.evidence.empty()) return;
  if (!subject.detail.has_steps) return page.leave_out("steps");
  if (steps.steps.empty()) {
    page.heading("STEPS", "none found · " + printable(steps.evidence));
    return;
  }
  page.heading("STEPS", summary(steps));
  if (subject.detail.has_step_table)
    draw_step_table(steps, page);
  else
    page.leave_out("the table of steps");
  if (!subject.device.growth.empty())
    draw_growth(subject.device.growth, subject.detail.growths, page);
}

void draw_phases(const Subject& subject, Page& page) {
  const auto& phases = subject.device.steps.phases;
  if (phases.empty()) return;
  if (!subject.detail.has_phases) return page.leave_out("phases of a step");
  page.heading("PHASES", "of a step, medians over the steady ones");
  Table table({{Align::kLeft, Shrink::kFront},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight}});
  const auto head = [](std::string_view text) { return Line(text, Style::kFaint); };
  table.add_row({Line(), head("takes"), head("peak"), head("leaves"), head("asks for")});
  for (const explain::Phase& phase : std::span(phases).first(std::min(phases.size(), kPhases))) {
    table.add_row(
        {Line(printable(phase.name)), Line(time_text(subject.report.clock, phase.duration_ns)),
         Line(format_bytes(phase.peak_bytes)), Line(format_bytes_signed(phase.delta_bytes)),
         Line(format_bytes(phase.allocated_bytes))});
  }
  page.add(table.draw(2, page.columns()));
}

}  // namespace vram::show
