#include "show/replay/replay_text.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "replay/fidelity.hpp"
#include "show/draw/page.hpp"
#include "show/draw/plot.hpp"
#include "show/names.hpp"
#include "show/replay/replay_parts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::show {
namespace {

using replay::ReplayOom;
using replay::ReplayResult;

constexpr size_t kPlots = 3;  // more of them would be more than a screen
constexpr int kPlotRows = 6;

// Why a request found no place: too much was alive, or what was free was in pieces.
std::string reason_text(const ReplayOom& oom, std::optional<uint64_t> capacity) {
  if (!capacity) return "";
  const uint64_t unused = *capacity - std::min(*capacity, oom.allocated_bytes);
  if (oom.requested_bytes > unused) {
    return tr(
        " What was alive and what was asked for exceed the capacity together: other settings "
        "can't help at this point.");
  }
  return trf(" {} of the capacity held no live block, but not in one usable piece.",
             format_bytes(unused));
}

std::string place_text(const ReplayReport& report, const Replayed& replayed) {
  const ReplayOom& oom = *replayed.result.oom;
  std::string text = tr("at event ") + format_count(oom.event);
  if (report.has_time) text += tr(", ") + duration_text(oom.time_ns);
  if (replayed.oom_step) text += trf(", step {}", *replayed.oom_step);
  return text;
}

std::string caught_text(const ReplayResult& result) {
  if (!result.caught_oom) return "";
  return trf(
      "; refused like the recorded program, which went on without: {}, the first of {} at event {}",
      counted(result.caught_ooms, "request"), format_bytes(result.caught_oom->requested_bytes),
      format_count(result.caught_oom->event));
}

void draw_completion(const ReplayResult& result, Page& page) {
  if (result.layouts_completed < result.layouts_tried) {
    page.paragraph(
        Line("  ").add("✖ ", Style::kWarning),
        trf("completes in {} of {} layouts of addresses: where the driver puts its segments "
            "decides, so it may as well run out of memory here. The figures are of one "
            "that completes",
            result.layouts_completed, result.layouts_tried));
    return;
  }
  const std::string sure =
      result.layouts_tried > 1
          ? trf(", in all {} layouts of addresses that were tried", result.layouts_tried)
          : std::string();
  page.paragraph(Line("  ").add("✔ ", Style::kGood), tr("completes") + sure + caught_text(result));
}

void draw_outcome(const ReplayReport& report, const Replayed& replayed, Page& page) {
  const ReplayResult& result = replayed.result;
  if (result.completed) return draw_completion(result, page);
  const Line lead = Line("  ").add("✖ ", Style::kBad);
  if (!result.oom) {
    page.paragraph(lead, tr("does not complete"));
    return;
  }
  const ReplayOom& oom = *result.oom;
  page.paragraph(
      lead, trf("out of memory {}: asked for {} with {} reserved and {} "
                "allocated; the largest free block was {}.{}",
                place_text(report, replayed), format_bytes(oom.requested_bytes),
                format_bytes(oom.reserved_bytes), format_bytes(oom.allocated_bytes),
                format_bytes(oom.largest_free_bytes), reason_text(oom, result.capacity_bytes)));
}

void draw_peaks(const ReplayResult& result, Page& page) {
  Table table({{Align::kLeft},
               {Align::kRight},
               {.align = Align::kRight, .may_go = true},
               {.align = Align::kRight, .may_go = true},
               {Align::kRight},
               {Align::kRight}});
  std::vector<Line> titles = {Line()};
  for (const char* title :
       {tr("reserved"), tr("active"), tr("allocated"), tr("requested"), tr("utilization")})
    titles.emplace_back(title, Style::kFaint);
  table.add_row(std::move(titles));
  table.add_row({Line(tr("peak"), Style::kFaint),
                 Line(format_bytes(result.peak_reserved_bytes), Style::kStrong),
                 Line(format_bytes(result.peak_active_bytes)),
                 Line(format_bytes(result.peak_allocated_bytes)),
                 Line(format_bytes(result.peak_requested_bytes)),
                 Line(format_share(result.peak_requested_bytes, result.peak_reserved_bytes))});
  page.add(table.draw(2, page.columns()));
}

void draw_capacity(const ReplayReport& report, const ReplayResult& result, Page& page) {
  if (!report.searched_min_capacity) return;
  const Line lead(tr("  fits in  "), Style::kFaint);
  if (!result.min_capacity_bytes) {
    page.paragraph(lead, tr("unknown: no capacity that was tried let it complete"));
    return;
  }
  const uint64_t retries = result.min_capacity_retries.value_or(0);
  page.paragraph(
      lead,
      trf("{}, the smallest capacity that suffices{}", format_bytes(*result.min_capacity_bytes),
          retries == 0 ? std::string(tr(", without retries"))
                       : trf(", at the price of {} there",
                             retries == 1 ? std::string(tr("1 retry"))
                                          : format_count(retries) + tr(" retries"))));
}

std::string retries_and_why(uint64_t retries) {
  if (retries == 0) return tr("no retries");
  return trf("{} {}: the cache was emptied to serve one request", format_count(retries),
             retries == 1 ? tr("retry") : tr("retries"));
}

void draw_driver(const ReplayResult& result, Page& page) {
  std::string calls;
  for (const replay::DriverCallCount& call : result.driver_calls) {
    if (call.count == 0) continue;
    calls += fmt::format("{}{} {} ({})", calls.empty() ? "" : tr(", "), format_count(call.count),
                         call.name, duration_text(call.time_ns));
  }
  page.paragraph(Line(tr("  driver  "), Style::kFaint),
                 calls.empty()
                     ? tr("no calls")
                     : trf("about {} in calls: {}", duration_text(result.driver_time_ns), calls));
  std::string rest =
      trf("memory taken {}, given back {}; {}", counted(result.device_allocs, "time"),
          counted(result.device_frees, "time"), retries_and_why(result.retries));
  if (result.stream_waits > 0) {
    rest += trf("; {} of one stream for another", counted(result.stream_waits, "wait"));
  }
  page.paragraph(Line("          "), rest);
}

// Without a clock, slices have no times: they then lie at equal distances.
std::vector<TimelinePoint> timeline_of(const ReplayResult& result, int64_t end) {
  const auto& curve = result.curve;
  const bool has_time = std::ranges::any_of(curve, [](const auto& p) { return p.time_ns > 0; });
  std::vector<TimelinePoint> points;
  points.reserve(curve.size());
  for (size_t i = 0; i < curve.size(); ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(curve.size());
    const auto time_ns = static_cast<int64_t>(share * static_cast<double>(end));
    points.push_back(
        {has_time ? curve[i].time_ns : time_ns, curve[i].requested_bytes, curve[i].reserved_bytes});
  }
  return points;
}

int64_t oom_place(const ReplayOom& oom, bool has_time) {
  return has_time ? oom.time_ns : static_cast<int64_t>(oom.event);
}

std::vector<PlotMark> marks_of(const Replayed& replayed, const std::vector<TimelinePoint>& points,
                               const TimeScale& scale, bool has_time) {
  const auto largest = std::ranges::max_element(points, {}, &TimelinePoint::reserved_bytes);
  std::vector<PlotMark> marks;
  if (const auto& oom = replayed.result.oom) {
    const int64_t at = oom_place(*oom, has_time);
    marks.push_back({scale.column_of(at),
                     tr("out of memory, asked ") + format_bytes(oom->requested_bytes),
                     Style::kBad});
  }
  marks.push_back({scale.column_of(largest->time_ns),
                   tr("peak reserved ") + format_bytes(replayed.result.peak_reserved_bytes),
                   Style::kStrong});
  return marks;
}

uint64_t highest_of(const ReplayReport& report) {
  uint64_t highest = 0;
  for (const Replayed& each : report.results) {
    for (const auto& point : each.result.curve) highest = std::max(highest, point.reserved_bytes);
  }
  return highest;
}

void draw_curve(const ReplayReport& report, const Replayed& replayed, Page& page) {
  if (replayed.result.curve.empty() || report.results.size() > kPlots) return;
  const int64_t known = report.has_time ? report.duration_ns : static_cast<int64_t>(report.events);
  const TimeScale scale{std::max({replayed.result.curve.back().time_ns + 1, known, int64_t{1}}),
                        page.columns() - kPlotGutter};
  const std::vector<TimelinePoint> points = timeline_of(replayed.result, scale.end_ns);
  Plot plot;
  plot.columns = gather(points, scale);
  if (const auto& oom = replayed.result.oom) {  // nothing ran after it
    const auto end = static_cast<size_t>(scale.column_of(oom_place(*oom, report.has_time))) + 1;
    std::fill(plot.columns.begin() + static_cast<std::ptrdiff_t>(end), plot.columns.end(),
              PlotColumn());
  }
  plot.marks = marks_of(replayed, points, scale, report.has_time);
  plot.x_ticks = axis_ticks(report.has_time, scale);
  plot.max_rows = kPlotRows;
  plot.axis_bytes = highest_of(report);
  page.add(draw_plot(plot));
}

// What the figures are, and what that rests on.
std::string basis_text(const replay::Fidelity& fidelity, const Replayed& replayed) {
  const std::string calls = counted(fidelity.recorded_calls, "recorded driver call");
  switch (replay::basis_of(replayed.result, replayed.is_recorded, fidelity)) {
    case replay::Basis::kExact:
      return trf("exact: the {} came out, each of the same kind and size, in order", calls);
    case replay::Basis::kEmulated:
      return trf(
          "an emulation: under the recorded conditions, the {} came out, each of the same kind and "
          "size, in order",
          calls);
    case replay::Basis::kEstimate:
      return tr("an estimate: ") + doubt_text(fidelity);
    case replay::Basis::kModel:
      break;
  }
  if (replayed.result.model_note.empty()) return tr("a model");
  return tr("a model: ") + printable(replayed.result.model_note);
}

std::string start_text(const ReplayResult& result) {
  switch (result.start) {
    case replay::Start::kBeginning:
      break;
    case replay::Start::kRecorded:
      return trf("; begins with the memory as it was then, {} reserved",
                 format_bytes(result.start_reserved_bytes));
    case replay::Start::kModel:
      return tr(
          "; the start is a model: what was alive then is requested anew, in order of address");
  }
  return "";
}

void draw_one(const ReplayReport& report, size_t index, Page& page) {
  const Replayed& replayed = report.results[index];
  const std::string own = replayed.is_recorded ? tr("the recording's own settings; ") : "";
  const std::string number = report.results.size() > 1 ? fmt::format("{} ", index + 1) : "";
  page.blank();
  page.add(Line(number + printable(replayed.result.allocator), Style::kHeading)
               .without_end(page.columns()));
  page.paragraph(Line("  "),
                 own + basis_text(report.fidelity, replayed) + start_text(replayed.result),
                 Style::kFaint);
  draw_outcome(report, replayed, page);
  draw_peaks(replayed.result, page);
  draw_capacity(report, replayed.result, page);
  draw_driver(replayed.result, page);
  draw_curve(report, replayed, page);
}

void draw_legend(const ReplayReport& report, Page& page) {
  const bool plots = report.results.size() <= kPlots &&
                     std::ranges::any_of(report.results, [](const Replayed& each) {
                       return !each.result.curve.empty();
                     });
  if (!plots) return;
  page.blank();
  page.add(Line("█", Style::kActive)
               .add(tr(" requested  "))
               .add("░", Style::kReserved)
               .add(tr(" reserved, not requested")));
}

}  // namespace

std::string draw_replay(const ReplayReport& report, const TextOptions& options) {
  VRAM_CHECK(!report.results.empty());
  Page page(options);
  draw_subject(report, page);
  draw_comparison(report, page);
  if (const std::string difference = difference_sentence(report); !difference.empty()) {
    page.blank();
    page.paragraph(Line("→ ", Style::kStrong), printable(difference));
  }
  for (size_t i = 0; i < report.results.size(); ++i) draw_one(report, i, page);
  draw_legend(report, page);
  return page.finish();
}

}  // namespace vram::show
