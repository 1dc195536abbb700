#include "show/report/report_text.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "show/draw/page.hpp"
#include "show/names.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <span>

namespace vram::show {
namespace {

Detail full_detail(const TextOptions& options) {
  Detail detail;
  if (!options.top) return detail;
  detail.holders = detail.categories = *options.top == 0 ? Detail::kAll : *options.top;
  return detail;
}

Page drawn(const explain::Report& report, const TextOptions& options, const Detail& detail) {
  Page page(options);
  const Subject subject{report, report.devices[report.main_device], detail};
  for (const auto draw : {draw_origin, draw_devices, draw_peak, draw_timeline, draw_categories,
                          draw_holders, draw_waste, draw_rest, draw_steps, draw_phases, draw_marks,
                          draw_ooms, draw_what_if, draw_at, draw_findings, draw_notes}) {
    draw(subject, page);
  }
  draw_left_out(page);
  return page;
}

using explain::Clock;
using explain::Confidence;
using explain::DeviceReport;

std::string span_text(const Subject& subject) {
  const DeviceReport& device = subject.device;
  if (subject.report.clock == Clock::kEventIndex) return tr("recorded without a clock");
  const auto seconds = static_cast<std::time_t>(device.begin_unix_ns / kSignedSecondNs);
  std::string text = format_duration_ns(device.duration_ns);
  if (seconds > 0) text += trf(" from {:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(seconds));
  return text;
}

std::string steps_text(const explain::Steps& steps) {
  switch (steps.source) {
    case explain::StepSource::kNone:
      return tr("no steps found");
    case explain::StepSource::kAnnotations:
      return counted(steps.steps.size(), "annotated step");
    case explain::StepSource::kRepetition:
      return counted(steps.steps.size(), "step") + tr(" found by repetition");
  }
  return "";
}

Line confidence_line(const explain::Verdict& verdict) {
  Line line;
  switch (verdict.confidence) {
    case Confidence::kExact:
    case Confidence::kConsistent:
      line.add("✔ ", Style::kGood);
      break;
    case Confidence::kUnchecked:
      line.add("· ", Style::kFaint);
      break;
    default:
      line.add("✖ ", Style::kWarning);
  }
  return line;
}

std::string truncated_text(uint64_t byte) {
  return trf("the file is cut off at byte {}; what was whole before it is shown",
             format_count(byte));
}

void draw_confidence(const explain::Report& report, const explain::Verdict& verdict, Page& page) {
  std::string text(phrase(verdict.confidence));
  if (verdict.confidence == Confidence::kTruncated && report.truncated_at_byte) {
    text = truncated_text(*report.truncated_at_byte);
  }
  if (!verdict.detail.empty()) text += " · " + printable(verdict.detail);
  if (verdict.before_recording_count > 0) {
    text += trf(" · {} in {} alive before the recording began",
                format_bytes(verdict.before_recording_bytes),
                counted(verdict.before_recording_count, "block"));
  }
  page.paragraph(confidence_line(verdict), text);
}

}  // namespace

std::string draw_report(const explain::Report& report, const TextOptions& options) {
  VRAM_CHECK(report.main_device < report.devices.size());
  Detail detail = full_detail(options);
  Page page = drawn(report, options, detail);
  for (const auto reduce : reductions()) {
    if (options.max_lines == 0 || page.line_count() <= options.max_lines) break;
    reduce(detail);
    if (options.top) detail.holders = full_detail(options).holders;
    page = drawn(report, options, detail);
  }
  return page.finish();
}

namespace {

using Reduction = void (*)(Detail&);

// An asked number of holders may be less already.
void at_most(size_t limit, size_t& number) { number = std::min(number, limit); }

constexpr auto kReductions = std::to_array<Reduction>(
    {[](Detail& d) { d.has_notes = d.has_phases = false; },
     [](Detail& d) { d.has_marks = false; },
     [](Detail& d) { d.plot_rows = 5; },
     [](Detail& d) { d.has_shares = false; },
     [](Detail& d) { d.evidence = 1; },
     [](Detail& d) { at_most(5, d.holders), at_most(5, d.categories); },
     [](Detail& d) { d.what_ifs = 2; },
     [](Detail& d) { d.has_waste_notes = false, d.growths = 2; },
     [](Detail& d) { d.findings = 4, d.advice = 3; },
     [](Detail& d) { d.has_step_table = false; },
     [](Detail& d) { d.findings = 3, d.ooms = 1, d.devices = 4; },
     [](Detail& d) { at_most(3, d.holders), at_most(3, d.categories); },
     [](Detail& d) { d.has_rest = false; },
     [](Detail& d) { d.advice = 2; },
     [](Detail& d) { d.plot_rows = 3; },
     [](Detail& d) { d.evidence = 0, d.growths = 1; },
     [](Detail& d) { d.advice = 1; },
     [](Detail& d) { d.plot_rows = 0; },
     [](Detail& d) { d.what_ifs = 0, d.categories = 0, d.findings = 2; },
     [](Detail& d) { d.has_steps = false, d.devices = 1, d.findings = 1; }});

}  // namespace

std::span<void (*const)(Detail&)> reductions() { return kReductions; }

void draw_origin(const Subject& subject, Page& page) {
  const explain::Report& report = subject.report;
  draw_file(report.path, report.format, report.file_bytes, page);
  const DeviceReport& device = subject.device;
  page.paragraph(Line(), fmt::format("{} · {} · {} · {}", device_name(device), span_text(subject),
                                     counted(device.events, "event"), steps_text(device.steps)));
  // The verdict says it too, unless it has something worse to say.
  if (report.truncated_at_byte && device.verdict.confidence != Confidence::kTruncated) {
    page.paragraph(Line("✖ ", Style::kWarning), truncated_text(*report.truncated_at_byte));
  }
  draw_confidence(report, device.verdict, page);
}

void draw_devices(const Subject& subject, Page& page) {
  if (subject.report.devices.size() < 2) return;
  const auto gpus = std::ranges::count(subject.report.devices, false, &DeviceReport::is_host);
  page.heading(tr("DEVICES"), trf("{} is shown below{}", device_name(subject.device),
                                  gpus > 1 ? tr("; --device N shows another") : ""));
  Table table({{},
               {.align = Align::kRight, .may_go = true},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight}});
  table.add_row({Line(), Line(tr("events"), Style::kFaint), Line(tr("requested"), Style::kFaint),
                 Line(tr("reserved"), Style::kFaint), Line(tr("utilization"), Style::kFaint)});
  const auto& devices = subject.report.devices;
  for (const DeviceReport& device :
       std::span(devices).first(std::min(devices.size(), subject.detail.devices))) {
    const Style style = &device == &subject.device ? Style::kStrong : Style::kPlain;
    const uint64_t requested = device.peak.requested.totals.requested_bytes;
    const uint64_t reserved = device.peak.reserved.totals.reserved_bytes;
    table.add_row({Line(device_name(device), style), Line(format_count(device.events)),
                   Line(format_bytes(requested), style), Line(format_bytes(reserved), style),
                   Line(format_share(requested, reserved))});
  }
  page.add(table.draw(2, page.columns()));
  if (devices.size() > subject.detail.devices)
    page.leave_out(counted(devices.size() - subject.detail.devices, "device"));
}

namespace {

// Of the formats that are one phrase.
constexpr std::array<std::string_view, 7> kFormats = {tr_later("torch.profiler trace"),
                                                      tr_later("pprof profile"),
                                                      tr_later("RMM log"),
                                                      tr_later("XProf profile"),
                                                      tr_later("XProf memory profile"),
                                                      tr_later("CSV of vram convert"),
                                                      tr_later("JSON lines of vram convert")};

// "RMM log, gz" in the language of the user.
std::string one_format_text(std::string_view format) {
  constexpr std::string_view kSnapshot = "PyTorch snapshot (pickle protocol ";
  if (format.starts_with(kSnapshot) && format.ends_with(')')) {
    format.remove_prefix(kSnapshot.size());
    return trf("PyTorch snapshot (pickle protocol {})", format.substr(0, format.size() - 1));
  }
  const std::string_view name = format.substr(0, format.find(", "));
  if (std::ranges::find(kFormats, name) == kFormats.end()) return std::string(format);
  return std::string(tr(name)).append(format.substr(name.size()));
}

// Of a recording that was converted, with what it was converted from. A file may claim any number
// of conversions.
std::string format_text(std::string_view format, int conversions = 3) {
  constexpr std::string_view kFrom = ", from ";
  const size_t from = format.find(kFrom);
  if (from == format.npos || conversions == 0) return one_format_text(format);
  return trf("{}, from {}", one_format_text(format.substr(0, from)),
             format_text(format.substr(from + kFrom.size()), conversions - 1));
}

}  // namespace

void draw_file(const std::string& path, const std::string& format, uint64_t file_bytes,
               Page& page) {
  const Line name(printable(path), Style::kStrong);
  std::string about = printable(format_text(format));
  if (file_bytes > 0) about += tr(", ") + format_bytes(file_bytes);  // unknown of a pipe
  Line line = name;
  line.add("  ").add(about, Style::kFaint);
  if (line.width() <= page.columns()) {
    page.add(std::move(line));
  } else {
    page.add(name.without_front(page.columns()));
    page.paragraph(Line(), about, Style::kFaint);
  }
}

}  // namespace vram::show
