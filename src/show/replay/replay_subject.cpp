#include "base/bytes.hpp"
#include "show/names.hpp"
#include "show/replay/replay_parts.hpp"
#include "show/report/report_text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace vram::show {
namespace {

constexpr double kNoticedError = 0.02;  // of the recorded peak

std::string capacity_text(const ReplaySubject& subject) {
  switch (subject.capacity_source) {
    case CapacitySource::kUnlimited:
      return "a device without limit";
    case CapacitySource::kAsked:
      return fmt::format("a device of {}{}", format_bytes(subject.capacity_bytes.value_or(0)),
                         subject.card.empty() ? "" : " (" + subject.card + ")");
    case CapacitySource::kRecorded:
      return fmt::format("a device of {}, the {}", format_bytes(subject.capacity_bytes.value_or(0)),
                         subject.recorded_limit_unknown ? "most that the recorded program had"
                                                        : "limit that the recorded program met");
  }
  return "";
}

std::string why_no_proof(const replay::Fidelity& fidelity) {
  if (fidelity.recorded_calls == 0) {
    return fmt::format(
        "no driver call is recorded to check a replay against; one of the recording's own settings "
        "makes {}",
        fidelity.made_calls == 0 ? "none" : format_count(fidelity.made_calls));
  }
  const std::string recorded = counted(fidelity.recorded_calls, "recorded driver call");
  if (fidelity.matched_calls < fidelity.recorded_calls) {
    return fmt::format("a replay of the recording's own settings diverges after call {} of {}",
                       format_count(fidelity.matched_calls), recorded);
  }
  if (!fidelity.is_exact()) {
    return fmt::format("a replay of the recording's own settings makes {} instead of {}",
                       counted(fidelity.made_calls, "driver call"), recorded);
  }
  return "the recording begins in the middle of the program";
}

// Savings are computed against a replay of the recorded settings: one that reserves another amount
// than the program did makes them another program's.
std::string missed_peak(const replay::Fidelity& fidelity) {
  const auto recorded = static_cast<double>(fidelity.recorded_peak_bytes);
  const auto made = static_cast<double>(fidelity.made_peak_bytes);
  const bool is_known = fidelity.recorded_peak_bytes > 0;
  if (!is_known || std::abs(made - recorded) <= kNoticedError * recorded) return "";
  return fmt::format(", and reserves {} at its peak where the program reserved {}",
                     format_bytes(fidelity.made_peak_bytes),
                     format_bytes(fidelity.recorded_peak_bytes));
}

}  // namespace

std::string duration_text(int64_t duration_ns) {
  return duration_ns == 0 ? "0 s" : format_duration_ns(duration_ns);
}

std::string doubt_text(const replay::Fidelity& fidelity) {
  return why_no_proof(fidelity) + missed_peak(fidelity);
}

std::string peak_before_text(const replay::Fidelity& fidelity) {
  if (fidelity.start_is_unknown) {
    return "What other settings would save is unknown: the recording begins in the middle of the "
           "program, and nothing says how much was reserved then. Record from the beginning of the "
           "program.";
  }
  return fmt::format(
      "What other settings would save is unknown: the recording begins with {} reserved and never "
      "has more, so the program's peak lies before it. Record from the beginning of the program.",
      format_bytes(fidelity.start_reserved_bytes));
}

void draw_subject(const ReplaySubject& subject, Page& page) {
  draw_file(subject.path, subject.format, subject.file_bytes, page);
  const std::string span =
      subject.has_time ? duration_text(subject.duration_ns) : "recorded without a clock";
  page.paragraph(Line(), fmt::format("GPU {} · {} · {} replayed on {}", subject.device, span,
                                     counted(subject.requests, "request"), capacity_text(subject)));
  const Line bad("✖ ", Style::kWarning);
  if (subject.truncated_at_byte) {
    page.paragraph(bad, fmt::format("the file is cut off at byte {}; what was whole before it is "
                                    "replayed",
                                    format_count(*subject.truncated_at_byte)));
  }
  if (subject.ring_overflowed) {
    page.paragraph(bad,
                   "the first part of the recording is missing: replays begin with what was alive "
                   "then");
  }
  if (subject.events == 0) {
    page.paragraph(bad,
                   "no events were recorded: what was alive at the end is all that is replayed");
  }
  if (subject.recorded_limit_unknown) {
    page.paragraph(bad,
                   "no one limit explains where the recorded program was refused memory (others "
                   "may have filled the device); --capacity sets another than the most it had");
  }
}

Line outcome_of(const replay::ReplayResult& result) {
  if (!result.completed) return Line("OOM", Style::kBad);
  if (result.layouts_completed == result.layouts_tried) return Line("ok");
  return Line(fmt::format("{} of {}", result.layouts_completed, result.layouts_tried),
              Style::kWarning);
}

}  // namespace vram::show
