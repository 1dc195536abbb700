// What is worth doing something about, largest first, and the small print after it.
#include "base/bytes.hpp"
#include "base/text.hpp"
#include "show/names.hpp"
#include "show/sections/sections.hpp"

#include <fmt/format.h>

#include <algorithm>

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
  page.heading("FINDINGS",
               findings.empty() ? "none: nothing here is worth your time" : "largest first");
  const Detail& detail = subject.detail;
  const size_t shown = std::min(findings.size(), detail.findings);
  for (size_t i = 0; i < shown; ++i) draw_finding(i, findings[i], detail, page);
  if (shown > detail.evidence)
    page.leave_out("evidence of " + counted(shown - detail.evidence, "finding"));
  if (shown > detail.advice)
    page.leave_out("advice on " + counted(shown - detail.advice, "finding"));
  if (shown < findings.size()) page.leave_out(counted(findings.size() - shown, "more finding"));
}

void draw_notes(const Subject& subject, Page& page) {
  const explain::Report& report = subject.report;
  if (report.notes.empty()) return;
  if (!subject.detail.has_notes) return page.leave_out(counted(report.notes.size(), "note"));
  page.heading("NOTES", "what the reader left out or assumed");
  for (const explain::NoteLine& note : report.notes) {
    std::string text = printable(note.text);
    if (note.count > 1) text += fmt::format(" ({} times)", format_count(note.count));
    page.paragraph(Line("  · ", Style::kFaint), text, Style::kFaint);
  }
}

void draw_left_out(Page& page) {
  if (page.left_out().empty()) return;
  page.blank();
  page.paragraph(Line("--full adds  ", Style::kFaint),
                 fmt::format("{}", fmt::join(page.left_out(), ", ")), Style::kFaint);
}

}  // namespace vram::show
