#include "show/replay_subject.hpp"

#include "base/bytes.hpp"
#include "show/names.hpp"
#include "show/sections/file.hpp"

#include <fmt/format.h>

namespace vram::show {
namespace {

std::string capacity_text(const ReplaySubject& subject) {
  switch (subject.capacity_source) {
    case CapacitySource::kUnlimited:
      return "a device without limit";
    case CapacitySource::kAsked:
      return fmt::format("a device of {}{}", format_bytes(subject.capacity_bytes.value_or(0)),
                         subject.card.empty() ? "" : " (" + subject.card + ")");
    case CapacitySource::kRecorded:
      return fmt::format("a device of {}, the limit that the recorded program met",
                         format_bytes(subject.capacity_bytes.value_or(0)));
  }
  return "";
}

}  // namespace

std::string duration_text(int64_t duration_ns) {
  return duration_ns == 0 ? "0 s" : format_duration_ns(duration_ns);
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
                   "the first part of the recording is missing: what was alive when it begins "
                   "is replayed as allocated then, in order of address");
  }
  if (subject.events == 0) {
    page.paragraph(bad,
                   "no events were recorded: what was alive at the end is all that is replayed");
  }
  if (subject.recorded_limit_unknown) {
    page.paragraph(bad,
                   "no one limit explains where the recorded program was refused memory (others "
                   "may have filled the device), so none is assumed; --capacity sets one");
  }
}

Line outcome_of(const replay::ReplayResult& result) {
  if (!result.completed) return Line("OOM", Style::kBad);
  if (result.layouts_completed == result.layouts_tried) return Line("ok");
  return Line(fmt::format("{} of {}", result.layouts_completed, result.layouts_tried),
              Style::kWarning);
}

}  // namespace vram::show
