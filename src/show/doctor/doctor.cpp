#include "show/doctor/doctor.hpp"

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/draw/page.hpp"
#include "show/live/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace vram::show {
namespace {

using doctor::Finding;
using doctor::Severity;

constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kTitles = {
    {{"platform", tr_later("This machine")},
     {"driver", tr_later("Driver")},
     {"permissions", tr_later("Permissions")},
     {"container", tr_later("Container and control group")},
     {"mps", tr_later("MPS and compute modes")},
     {"mig", "MIG"},
     {"persistence", tr_later("Persistence")},
     {"torch", tr_later("PyTorch's allocator")},
     {"cuda", tr_later("CUDA's variables")},
     {"nccl", "NCCL"},
     {"jax", "JAX"},
     {"tf", "TensorFlow"},
     {"frameworks", tr_later("Frameworks together")},
     {"vram", tr_later("vram's variables")},
     {"limits", tr_later("Limits")},
     {"health", tr_later("Health of the GPUs")}}};

std::string_view title_of(std::string_view subject) {
  const auto* const title =
      std::ranges::find(kTitles, subject, [](const auto& pair) { return pair.first; });
  return title == kTitles.end() ? subject : tr(title->second);
}

struct Appearance {
  std::string_view mark;
  Style style;
};

Appearance appearance_of(Severity severity) {
  switch (severity) {
    case Severity::kBad:
      return {"✖ ", Style::kBad};
    case Severity::kWarning:
      return {"▲ ", Style::kWarning};
    case Severity::kNote:
      return {"· ", Style::kFaint};
    case Severity::kGood:
      return {"✔ ", Style::kGood};
  }
  return {"", Style::kPlain};
}

using Group = std::vector<const Finding*>;

// The group with the worst finding first; what is good is listed at the end.
std::vector<Group> groups_of(const doctor::Report& report) {
  std::vector<Group> groups;
  for (const Finding& finding : report.findings) {
    if (finding.severity == Severity::kGood) continue;
    const std::string_view subject = doctor::subject_of(finding.id);
    if (groups.empty() || doctor::subject_of(groups.back().front()->id) != subject)
      groups.emplace_back();
    groups.back().push_back(&finding);
  }
  std::ranges::stable_sort(groups, {}, [](const Group& group) { return group.front()->severity; });
  return groups;
}

const Line kIndent("    ");

// A command stands as it is to be typed: alone, and never broken.
void add_repair(const doctor::Repair& repair, Page& page) {
  if (!repair.how.empty())
    page.paragraph(Line("  → ", Style::kGood), printable(repair.how), Style::kPlain);
  for (const std::string& command : repair.commands)
    page.add(Line("      ").add(printable(command), Style::kStrong));
}

void add_finding(const Finding& finding, bool all, Page& page) {
  const Appearance appearance = appearance_of(finding.severity);
  page.paragraph(Line(appearance.mark, appearance.style), printable(finding.what), Style::kStrong);
  const bool is_serious = finding.severity < Severity::kNote;
  if (is_serious || all) page.paragraph(kIndent, printable(finding.why));
  add_repair(finding.repair, page);
  if (!all) return;
  for (const std::string& line : finding.evidence)
    page.paragraph(Line(tr("    found: "), Style::kFaint), printable(line), Style::kFaint);
  page.paragraph(kIndent, finding.id, Style::kFaint);
}

std::string summary_of(const doctor::Report& report) {
  const auto count = [&](Severity severity) {
    return static_cast<uint64_t>(std::ranges::count(report.findings, severity, &Finding::severity));
  };
  const uint64_t bad = count(Severity::kBad);
  return trf("{} to repair, {}, {}; {} usable", bad == 0 ? tr("nothing") : fmt::format("{}", bad),
             counted(count(Severity::kWarning), "warning"), counted(count(Severity::kNote), "note"),
             counted(report.usable_gpus, "GPU"));
}

void add_good(const doctor::Report& report, Page& page) {
  bool is_first = true;
  for (const Finding& finding : report.findings) {
    if (finding.severity != Severity::kGood) continue;
    if (std::exchange(is_first, false)) page.blank();
    page.paragraph(Line("✔ ", Style::kGood), printable(finding.what));
  }
}

}  // namespace

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::kBad:
      return "bad";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
    case Severity::kGood:
      return "good";
  }
  return "unknown";
}

std::string draw_doctor(const doctor::Report& report, bool all, const TextOptions& options) {
  Page page(options);
  Line head(printable(report.host), Style::kStrong);
  if (report.time_ns != 0) head.add("  ").add(clock_text(report.time_ns), Style::kFaint);
  page.add(head.add(report.host.empty() ? "" : "  ").add(summary_of(report)));
  for (const Group& group : groups_of(report)) {
    page.blank();
    page.add(Line(title_of(doctor::subject_of(group.front()->id)), Style::kHeading));
    for (const Finding* finding : group) add_finding(*finding, all, page);
  }
  add_good(report, page);
  return page.finish();
}

namespace {

Json json_doctor_finding(const doctor::Finding& finding) {
  return {
      {"id", finding.id},
      {"subject", doctor::subject_of(finding.id)},
      {"severity", name_of(finding.severity)},
      {"what", json_text(finding.what)},
      {"why", json_text(finding.why)},
      {"repair",
       {{"how", json_text(finding.repair.how)}, {"commands", json_texts(finding.repair.commands)}}},
      {"evidence", json_texts(finding.evidence)}};
}

}  // namespace

std::string doctor_json(const doctor::Report& report) {
  std::array<uint64_t, 4> counts{};  // by severity
  Json findings = Json::array();
  for (const doctor::Finding& finding : report.findings) {
    ++counts.at(static_cast<size_t>(finding.severity));
    findings.push_back(json_doctor_finding(finding));
  }
  Json document = {{"schema", "vram.doctor/1"},
                   {"time_unix_ns", report.time_ns == 0 ? Json() : Json(report.time_ns)},
                   {"host", report.host.empty() ? Json() : json_text(report.host)},
                   {"usable_gpus", report.usable_gpus},
                   {"bad", counts[0]},
                   {"warnings", counts[1]},
                   {"notes", counts[2]}};
  document["findings"] = std::move(findings);
  return document.dump(2, ' ', true) + "\n";
}

}  // namespace vram::show
