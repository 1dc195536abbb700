// The peaks, each with its own moment, and how well reserved memory was used.
#include "base/bytes.hpp"
#include "show/draw/table.hpp"
#include "show/names.hpp"
#include "show/sections/sections.hpp"

#include <fmt/format.h>

#include <optional>

namespace vram::show {
namespace {

using explain::Moment;

Style utilization_style(uint64_t requested, uint64_t reserved) {
  const double share =
      reserved == 0 ? 1 : static_cast<double>(requested) / static_cast<double>(reserved);
  return share >= 0.9 ? Style::kGood : share >= 0.75 ? Style::kStrong : Style::kWarning;
}

// Three of them stand side by side: narrow pages have no room for their steps.
std::string moment_text(const Subject& subject, const Moment& moment, const Page& page) {
  constexpr int kWithSteps = 72;
  const auto step =
      page.columns() < kWithSteps ? std::nullopt : step_of(subject.device.steps, moment.event);
  const std::string time = time_text(subject.report.clock, moment.time_ns);
  return step ? fmt::format("{}, step {}", time, *step) : time;
}

}  // namespace

void draw_peak(const Subject& subject, Page& page) {
  const explain::Peak& peak = subject.device.peak;
  const uint64_t requested = peak.requested.totals.requested_bytes;
  const uint64_t reserved = peak.reserved.totals.reserved_bytes;
  const auto at = [&](const Moment& moment) {
    return Line(moment_text(subject, moment, page), Style::kFaint);
  };
  // Where no segment is recorded, blocks say how much was reserved at least.
  const bool is_assumed = subject.device.verdict.assumed_segment_bytes > 0;
  page.blank();
  Table table({{}, {Align::kRight}, {Align::kRight}, {Align::kRight}, {Align::kRight}});
  table.add_row({Line("PEAK", Style::kHeading), Line("requested"), Line("active"), Line("reserved"),
                 Line("utilization")});
  table.add_row({Line(), Line(format_bytes(requested), Style::kStrong),
                 Line(format_bytes(peak.active.totals.active_bytes), Style::kStrong),
                 Line((is_assumed ? "≥ " : "") + format_bytes(reserved), Style::kStrong),
                 Line((is_assumed ? "≤ " : "") + format_share(requested, reserved),
                      utilization_style(requested, reserved))});
  table.add_row({Line(), at(peak.requested), at(peak.active), at(peak.reserved)});
  page.add(table.draw(0, page.columns()));
}

}  // namespace vram::show
