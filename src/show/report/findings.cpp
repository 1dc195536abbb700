// What is worth doing something about, largest first, and the small print after it.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/draw/page.hpp"
#include "show/names.hpp"
#include "show/replay/replay_parts.hpp"
#include "show/report/report_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

namespace vram::show {
namespace {

using explain::Finding;
using explain::FindingKind;

constexpr int kIndent = 4;

Style style_of(FindingKind kind) {
  switch (kind) {
    case FindingKind::kOom:
    case FindingKind::kLeak:
      return Style::kBad;
    case FindingKind::kHolder:
    case FindingKind::kRecording:
      return Style::kStrong;
    default:
      return Style::kWarning;
  }
}

void draw_finding(size_t index, const Finding& finding, const Detail& detail, Page& page) {
  Line lead(fmt::format("{:2}  ", index + 1), style_of(finding.kind));
  page.paragraph(lead, printable(finding.title), Style::kStrong);
  Line indent;
  indent.pad_to(kIndent);
  if (!finding.detail.empty() && index < detail.evidence)
    page.paragraph(indent, printable(finding.detail));
  Line arrow = indent;
  arrow.add("→ ", Style::kGood);
  if (!finding.advice.empty() && index < detail.advice)
    page.paragraph(arrow, printable(finding.advice));
}

}  // namespace

void draw_findings(const Subject& subject, Page& page) {
  const auto& findings = subject.device.findings;
  page.heading(tr("FINDINGS"), findings.empty() ? tr("none: nothing here is worth your time")
                                                : tr("largest first"));
  const Detail& detail = subject.detail;
  const size_t shown = std::min(findings.size(), detail.findings);
  for (size_t i = 0; i < shown; ++i) draw_finding(i, findings[i], detail, page);
  if (shown > detail.evidence)
    page.leave_out(tr("evidence of ") + counted(shown - detail.evidence, "finding"));
  if (shown > detail.advice)
    page.leave_out(tr("advice on ") + counted(shown - detail.advice, "finding"));
  if (shown < findings.size()) page.leave_out(counted(findings.size() - shown, "more finding"));
}

void draw_notes(const Subject& subject, Page& page) {
  const explain::Report& report = subject.report;
  if (report.notes.empty()) return;
  if (!subject.detail.has_notes) return page.leave_out(counted(report.notes.size(), "note"));
  page.heading(tr("NOTES"), tr("what the reader left out or assumed"));
  for (const explain::NoteLine& note : report.notes) {
    std::string text = printable(note.text);
    if (note.count > 1) text += trf(" ({} times)", format_count(note.count));
    page.paragraph(Line("  · ", Style::kFaint), text, Style::kFaint);
  }
}

void draw_left_out(Page& page) {
  if (page.left_out().empty()) return;
  page.blank();
  page.paragraph(Line(tr("--full adds  "), Style::kFaint),
                 fmt::format("{}", fmt::join(page.left_out(), tr(", "))), Style::kFaint);
}

// What other settings would have given: the replays of the report, with the bytes they differ by.

namespace {

using explain::WhatIf;

std::string name_of(const WhatIf& replay) {
  return printable(replay.allocator) +
         (replay.basis == replay::Basis::kModel ? tr(" (model)") : "");
}

Line outcome_of(const WhatIf& replay) {
  if (!replay.completed) return Line(tr("OOM"), Style::kBad);
  if (replay.basis == replay::Basis::kEstimate) return Line(tr("estimate"), Style::kWarning);
  return Line(tr("ok"), Style::kGood);
}

// Against the recorded settings; nothing where one of the two did only a part of the program.
Line difference_of(const WhatIf& replay, const WhatIf& recorded) {
  if (replay.is_recorded) return Line(tr("as recorded"), Style::kFaint);
  if (!replay.completed || !recorded.completed) return Line();
  const auto more = static_cast<int64_t>(replay.peak_reserved_bytes) -
                    static_cast<int64_t>(recorded.peak_reserved_bytes);
  if (more == 0) return Line(tr("the same"), Style::kFaint);
  return Line(format_bytes_signed(more), more < 0 ? Style::kGood : Style::kBad);
}

std::vector<Line> row_of(const WhatIf& replay, const WhatIf& recorded) {
  return {Line(name_of(replay), replay.is_recorded ? Style::kStrong : Style::kPlain),
          outcome_of(replay),
          Line(format_bytes(replay.peak_reserved_bytes)),
          difference_of(replay, recorded),
          Line(format_duration_ns(replay.driver_time_ns)),
          Line(format_count(replay.retries))};
}

// The recorded settings and those to change to, and next to them the best others, in order.
std::vector<const WhatIf*> replays_to_show(const explain::WhatIfs& what_ifs, size_t limit) {
  std::vector<const WhatIf*> shown;
  for (const WhatIf& replay : what_ifs.replays) shown.push_back(&replay);
  if (shown.size() <= limit) return shown;
  std::ranges::stable_sort(shown, {}, [](const WhatIf* replay) {
    return std::tuple(!replay->is_recorded, !replay->is_recommended, !replay->completed,
                      replay->peak_reserved_bytes);
  });
  shown.resize(limit);
  std::ranges::sort(shown);
  return shown;
}

std::vector<Line> titles() {
  std::vector<Line> row = {Line(), Line()};
  for (const char* title : {tr("reserved"), "", tr("in driver"), tr("retries")})
    row.emplace_back(title, Style::kFaint);
  return row;
}

std::string device_text(const explain::WhatIfs& what_if) {
  if (!what_if.capacity_bytes) return tr("replayed without a limit");
  const std::string bytes = format_bytes(*what_if.capacity_bytes);
  return what_if.capacity_is_assumed ? trf("replayed with {}, the most that the program had", bytes)
                                     : trf("replayed at the limit of {}", bytes);
}

}  // namespace

void draw_what_if(const Subject& subject, Page& page) {
  const auto& what_if = subject.device.what_if;
  if (!what_if) return;
  if (subject.detail.what_ifs == 0) return page.leave_out(tr("replays with other settings"));
  page.heading(tr("WHAT IF"), device_text(*what_if) + tr("; vram tune tries more"));
  Table table({{Align::kLeft, Shrink::kEnd},
               {},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight}});
  table.add_row(titles());
  const auto shown = replays_to_show(*what_if, subject.detail.what_ifs);
  for (const WhatIf* replay : shown) table.add_row(row_of(*replay, what_if->replays.front()));
  page.add(table.draw(2, page.columns()));
  const bool has_estimates = std::ranges::any_of(
      shown, [](const WhatIf* replay) { return replay->basis == replay::Basis::kEstimate; });
  if (has_estimates)
    page.paragraph(Line("  "), tr("Estimates: ") + doubt_text(what_if->fidelity), Style::kFaint);
  if (shown.size() < what_if->replays.size())
    page.leave_out(counted(what_if->replays.size() - shown.size(), "replay"));
}

}  // namespace vram::show
