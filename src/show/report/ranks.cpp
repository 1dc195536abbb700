#include "show/report/ranks.hpp"

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/draw/page.hpp"
#include "show/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace vram::show {
namespace {

using explain::AlignedStep;
using explain::Difference;
using explain::RankLine;
using explain::RankMeasure;
using explain::RankReport;

Style style_of(const RankReport& report, size_t rank) {
  const bool is_worst = report.worst_by != RankMeasure::kNone && rank == report.worst;
  return is_worst ? Style::kWarning : Style::kPlain;
}

std::string bytes_or_dash(const std::optional<uint64_t>& bytes) {
  return bytes ? format_bytes(*bytes) : "-";
}

std::string file_name(const std::string& path) {
  return printable(path.substr(path.find_last_of('/') + 1));
}

std::string marks_of(const RankReport& report, size_t rank) {
  if (report.worst_by == RankMeasure::kNone) return "";
  if (rank == report.worst) return tr("worst");
  return rank == report.median ? tr("median") : "";
}

void draw_lines(const RankReport& report, Page& page) {
  std::string about = counted(report.ranks.size(), "recording");
  if (report.world_size) about += trf(" of {} ranks", *report.world_size);
  page.heading(tr("RANKS"), about);
  Table table({{Align::kRight},
               {Align::kLeft, Shrink::kFront},
               {.align = Align::kRight, .may_go = true},
               {.align = Align::kRight, .may_go = true},
               {Align::kRight},
               {.align = Align::kRight, .may_go = true},
               {.align = Align::kRight, .may_go = true},
               {Align::kRight},
               {},
               {Align::kLeft, Shrink::kFront}});
  std::vector<Line> titles;
  for (const char* title : {"rank", tr("host"), "GPU", tr("requested"), tr("reserved"),
                            tr("headroom"), tr("steps"), tr("OOMs"), "", tr("file")})
    titles.emplace_back(title, Style::kFaint);
  table.add_row(std::move(titles));
  for (size_t i = 0; i < report.ranks.size(); ++i) {
    const RankLine& line = report.ranks[i];
    const Style style = style_of(report, i);
    table.add_row({Line(format_count(line.rank), style), Line(printable(line.host), style),
                   Line(format_count(line.device)), Line(format_bytes(line.peak_requested_bytes)),
                   Line(format_bytes(line.peak_reserved_bytes), style),
                   Line(bytes_or_dash(line.headroom_bytes)), Line(format_count(line.steps)),
                   Line(format_count(line.ooms)), Line(marks_of(report, i), Style::kFaint),
                   Line(file_name(line.path), Style::kFaint)});
  }
  page.add(table.draw(2, page.columns()));
}

std::string worst_text(const RankReport& report) {
  const RankLine& worst = report.ranks[report.worst];
  const std::string subject = trf("rank {}", worst.rank);
  switch (report.worst_by) {
    case RankMeasure::kHeadroom:
      return trf("{} has the least headroom, {}", subject, bytes_or_dash(worst.headroom_bytes));
    case RankMeasure::kReserved:
      return trf("{} reserves most, {}", subject, format_bytes(worst.peak_reserved_bytes));
    default:
      return trf("{} requests most, {}", subject, format_bytes(worst.peak_requested_bytes));
  }
}

void add_difference(std::string_view what, const std::optional<Difference>& found, Table& table) {
  if (!found) return;
  table.add_row({Line(what, Style::kFaint), Line(printable(found->name)),
                 Line("+" + format_bytes(found->more_bytes()), Style::kStrong),
                 Line(trf("{} against {}", format_bytes(found->worst_bytes),
                          format_bytes(found->median_bytes)),
                      Style::kFaint)});
}

void draw_worst(const RankReport& report, Page& page) {
  if (report.worst_by == RankMeasure::kNone) {
    page.heading(tr("WORST"), tr("none: all peaks are the same"));
    return;
  }
  page.heading(tr("WORST"), trf("{}; what it has more than rank {}, the median one, at its peak",
                                worst_text(report), report.ranks[report.median].rank));
  Table table({{}, {Align::kLeft, Shrink::kFront}, {Align::kRight}, {}});
  add_difference(tr("category"), report.category, table);
  add_difference(tr("site"), report.site, table);
  add_difference(tr("step"), report.step, table);
  if (table.empty()) return page.add(Line(tr("  nothing: its device is smaller"), Style::kFaint));
  page.add(table.draw(2, page.columns()));
}

uint64_t spread(const AlignedStep& step) {
  uint64_t least = UINT64_MAX;
  for (const auto& bytes : step.peak_bytes) least = std::min(least, bytes.value_or(UINT64_MAX));
  return step.peak_bytes[step.worst].value_or(0) - least;
}

// Those in which the ranks differ most, in order.
std::vector<const AlignedStep*> steps_to_show(const RankReport& report, size_t top) {
  std::vector<const AlignedStep*> steps;
  for (const AlignedStep& step : report.steps) steps.push_back(&step);
  if (top == 0 || steps.size() <= top) return steps;
  std::ranges::stable_sort(steps, std::greater(), [](const auto* step) { return spread(*step); });
  steps.resize(top);
  std::ranges::sort(steps);
  return steps;
}

void draw_rank_steps(const RankReport& report, Page& page) {
  if (report.steps.empty()) return;
  const auto shown = steps_to_show(report, page.options().top.value_or(kDefaultRows));
  const std::string which = shown.size() < report.steps.size()
                                ? trf("the {} in which ranks differ most of ", shown.size())
                                : std::string();
  page.heading(tr("STEPS"), trf("peak requested; {}{} that ranks have in common", which,
                                counted(report.steps.size(), "step")));
  Table table({{}, {Align::kRight}, {}, {Align::kRight}});
  table.add_row({Line(tr("step"), Style::kFaint), Line(tr("largest"), Style::kFaint),
                 Line(tr("of rank"), Style::kFaint), Line(tr("spread"), Style::kFaint)});
  for (const AlignedStep* step : shown) {
    table.add_row({Line(printable(step->name)), Line(bytes_or_dash(step->peak_bytes[step->worst])),
                   spread(*step) > 0 ? Line(format_count(report.ranks[step->worst].rank),
                                            style_of(report, step->worst))
                                     : Line(),
                   Line(format_bytes(spread(*step)))});
  }
  page.add(table.draw(2, page.columns()));
}

void draw_files(const std::vector<explain::Report>& reports, Page& page) {
  page.heading(tr("FILES"), trf("{}, not of one program; vram report FILE explains one",
                                counted(reports.size(), "recording")));
  Table table({{Align::kLeft, Shrink::kFront},
               {.align = Align::kRight, .may_go = true},
               {Align::kRight},
               {Align::kRight},
               {.align = Align::kRight, .may_go = true},
               {.align = Align::kRight, .may_go = true},
               {Align::kRight}});
  std::vector<Line> titles;
  for (const char* title : {tr("file"), tr("events"), tr("requested"), tr("reserved"),
                            tr("utilization"), tr("steps"), tr("OOMs")})
    titles.emplace_back(title, Style::kFaint);
  table.add_row(std::move(titles));
  for (const explain::Report& report : reports) {
    const explain::DeviceReport& device = report.devices[report.main_device];
    const uint64_t requested = device.peak.requested.totals.requested_bytes;
    const uint64_t reserved = device.peak.reserved.totals.reserved_bytes;
    table.add_row({Line(file_name(report.path), Style::kStrong), Line(format_count(device.events)),
                   Line(format_bytes(requested)), Line(format_bytes(reserved)),
                   Line(format_share(requested, reserved)),
                   Line(format_count(device.steps.steps.size())),
                   Line(format_count(device.oom_count),
                        device.oom_count == 0 ? Style::kPlain : Style::kBad)});
  }
  page.add(table.draw(2, page.columns()));
}

}  // namespace

std::string draw_files(const std::vector<explain::Report>& reports, const TextOptions& options) {
  Page page(options);
  draw_files(reports, page);
  return page.finish();
}

std::string draw_ranks(const RankReport& report, const TextOptions& options) {
  Page page(options);
  draw_lines(report, page);
  draw_worst(report, page);
  draw_rank_steps(report, page);
  return page.finish();
}

namespace {

using explain::RankLine;
using explain::RankReport;

Json json_rank(const RankLine& line) {
  return {{"rank", line.rank},
          {"host", line.host.empty() ? Json() : json_text(line.host)},
          {"path", json_text(line.path)},
          {"device", line.device},
          {"peak_requested_bytes", line.peak_requested_bytes},
          {"peak_reserved_bytes", line.peak_reserved_bytes},
          {"headroom_bytes", json_or_null(line.headroom_bytes)},
          {"step_count", line.steps},
          {"oom_count", line.ooms}};
}

Json json_difference(const std::optional<explain::Difference>& found) {
  if (!found) return Json();
  return {{"name", json_text(found->name)},
          {"worst_bytes", found->worst_bytes},
          {"median_bytes", found->median_bytes}};
}

Json json_worst(const RankReport& report) {
  if (report.worst_by == explain::RankMeasure::kNone) return Json();
  return {{"rank", report.ranks[report.worst].rank},
          {"by", identifier(report.worst_by)},
          {"median_rank", report.ranks[report.median].rank},
          {"category", json_difference(report.category)},
          {"site", json_difference(report.site)},
          {"step", json_difference(report.step)}};
}

Json json_step(const explain::AlignedStep& step, const RankReport& report) {
  Json peaks = Json::array();
  for (const auto& bytes : step.peak_bytes) peaks.push_back(json_or_null(bytes));
  return {{"name", json_text(step.name)},
          {"worst_rank", report.ranks[step.worst].rank},
          {"peak_bytes", std::move(peaks)}};
}

}  // namespace

std::string ranks_json(const RankReport& report) {
  Json ranks = Json::array();
  for (const RankLine& line : report.ranks) ranks.push_back(json_rank(line));
  Json steps = Json::array();
  for (const explain::AlignedStep& step : report.steps) steps.push_back(json_step(step, report));
  const Json document = {{"schema", "vram.ranks/1"},
                         {"world_size", json_or_null(report.world_size)},
                         {"ranks", std::move(ranks)},
                         {"worst", json_worst(report)},
                         {"steps", std::move(steps)}};
  return document.dump(2) + "\n";
}

}  // namespace vram::show
