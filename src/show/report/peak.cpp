// The peaks, each with its own moment, and how well reserved memory was used.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/draw/page.hpp"
#include "show/draw/plot.hpp"
#include "show/names.hpp"
#include "show/report/breakdown.hpp"
#include "show/report/report_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

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
  return step ? trf("{}, step {}", time, *step) : time;
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
  table.add_row({Line(tr("PEAK"), Style::kHeading), Line(tr("requested")), Line(tr("active")),
                 Line(tr("reserved")), Line(tr("utilization"))});
  table.add_row({Line(), Line(format_bytes(requested), Style::kStrong),
                 Line(format_bytes(peak.active.totals.active_bytes), Style::kStrong),
                 Line((is_assumed ? "≥ " : "") + format_bytes(reserved), Style::kStrong),
                 Line((is_assumed ? "≤ " : "") + format_share(requested, reserved),
                      utilization_style(requested, reserved))});
  table.add_row({Line(), at(peak.requested), at(peak.active), at(peak.reserved)});
  page.add(table.draw(0, page.columns()));
}

// Who held the memory at the peak.

void draw_holders(const Subject& subject, Page& page) {
  const explain::State& state = subject.device.at_peak;
  const explain::Breakdown* main = main_breakdown(state, subject.report.has_stacks);
  if (main == nullptr) return;
  page.heading(tr("HOLDERS"), trf("of the {} requested at the peak, {} ({})",
                                  format_bytes(state.moment.totals.requested_bytes),
                                  phrase_of(*main, state, subject.report.has_stacks),
                                  counted(state.block_count, "block")));
  draw_breakdowns(state, subject.report.has_stacks, subject.detail, page);
}

void draw_categories(const Subject& subject, Page& page) {
  draw_categories(subject.device.at_peak, subject.detail, page);
}

namespace {

std::string event_text(const explain::Moment& moment) {
  if (moment.event == explain::kBeforeFirstEvent) return tr("before the first event");
  return tr("after event ") + format_count(static_cast<uint64_t>(moment.event));
}

}  // namespace

void draw_at(const Subject& subject, Page& page) {
  if (!subject.device.at) return;
  const explain::State& state = *subject.device.at;
  const explain::Totals& totals = state.moment.totals;
  page.heading(tr("AT"),
               trf("{}, {}: {} requested, {} allocated, {} active, {} reserved",
                   when(subject.report.clock, subject.device, state.moment).substr(3),
                   event_text(state.moment), format_bytes(totals.requested_bytes),
                   format_bytes(totals.allocated_bytes), format_bytes(totals.active_bytes),
                   format_bytes(totals.reserved_bytes)));
  draw_breakdowns(state, subject.report.has_stacks, subject.detail, page);
}

// Requests that failed for good: what was asked, what was there, who held it.

namespace {

using explain::Oom;

constexpr size_t kNames = 3;

std::string holders_text(const explain::State& state, bool has_stacks) {
  const explain::Breakdown* breakdown = main_breakdown(state, has_stacks);
  if (breakdown == nullptr || breakdown->holders.empty()) return "";
  std::string text;
  const size_t shown = std::min(breakdown->holders.size(), kNames);
  for (const explain::Holder& holder : std::span(breakdown->holders).first(shown)) {
    if (!text.empty()) text += tr(", ");
    text += fmt::format("{} {}", holder_text(breakdown->by, holder.name),
                        format_bytes(holder.requested_bytes));
  }
  return trf(" Held most by {}.", text);
}

std::string limit_text(const Oom& oom) {
  if (!oom.limit_bytes) return "";
  return trf(" under a limit of about {}", format_bytes(*oom.limit_bytes));
}

void draw_oom(const Subject& subject, const Oom& oom, Page& page) {
  const explain::Totals& totals = oom.moment.totals;
  Line lead("  ");
  lead.add("✖ ", Style::kBad);
  page.paragraph(
      lead,
      trf("{}: asked for {}{}; the device had {} free, the largest hole was {}. {} "
          "requested, {} reserved.{}",
          when(subject.report.clock, subject.device, oom.moment), format_bytes(oom.requested_bytes),
          limit_text(oom), format_bytes(oom.device_free_bytes),
          format_bytes(oom.largest_hole_bytes), format_bytes(totals.requested_bytes),
          format_bytes(totals.reserved_bytes), holders_text(oom.state, subject.report.has_stacks)));
}

}  // namespace

void draw_ooms(const Subject& subject, Page& page) {
  const auto& ooms = subject.device.ooms;
  if (ooms.empty()) return;
  page.heading(tr("OUT OF MEMORY"), counted(subject.device.oom_count, "request") + tr(" failed"));
  const size_t shown = std::min(ooms.size(), subject.detail.ooms);
  for (const Oom& oom : std::span(ooms).first(shown)) draw_oom(subject, oom, page);
  const uint64_t rest = subject.device.oom_count - shown;
  if (rest > 0) page.add(Line(trf("    and {} more", format_count(rest)), Style::kFaint));
}

// What was reserved at the reserved peak and not in use, and why the next request could not
// have it.

namespace {

using explain::State;
using explain::Waste;

struct Part {
  uint64_t bytes;
  std::string_view glyph;
  Style style;
  std::string_view name;
  std::string why;
};

std::string holes_text(const Waste& waste) {
  return counted(waste.hole_count, "hole") + tr(" between live blocks");
}

uint64_t wasted_of(const Waste& waste) {
  return waste.pending_bytes + waste.rounding_bytes + waste.releasable_bytes + waste.stranded_bytes;
}

constexpr size_t kParts = 6;

std::array<Part, kParts> parts_of(const State& state) {
  const Waste& waste = state.waste;
  const uint64_t unused = wasted_of(waste) + waste.private_pool_bytes;
  const uint64_t reserved = state.moment.totals.reserved_bytes;
  return {{{reserved - std::min(reserved, unused), "█", Style::kActive, tr("in use"),
            tr("asked for and allocated")},
           {waste.private_pool_bytes, "▪", Style::kActive, tr("private pools"),
            tr("their CUDA graphs or MemPools use it, nothing else can")},
           {waste.stranded_bytes, "╱", Style::kBad, tr("stranded"), holes_text(waste)},
           {waste.releasable_bytes, "░", Style::kGood, tr("releasable"),
            tr("whole segments: empty_cache() returns them")},
           {waste.pending_bytes, "▒", Style::kReserved, tr("pending"),
            tr("freed, but another stream may use it yet")},
           {waste.rounding_bytes, "▓", Style::kWarning, tr("rounding"),
            tr("blocks larger than what was asked for")}}};
}

void draw_bar(const std::array<Part, kParts>& parts, Page& page) {
  if (!page.options().bars) return;
  std::vector<BarPart> bar;
  bar.reserve(parts.size());
  for (const Part& part : parts) bar.push_back({part.bytes, std::string(part.glyph), part.style});
  Line line("  ");
  page.add(line.add(stacked_bar(bar, page.columns() - 4)));
}

void draw_parts(const std::array<Part, kParts>& parts, uint64_t reserved, Page& page) {
  Table table({{Align::kRight}, {Align::kRight}, {}, {}, {Align::kLeft, Shrink::kEnd}});
  for (const Part& part : parts) {
    if (part.bytes == 0) continue;
    const std::string_view glyph = page.options().bars ? part.glyph : "";
    table.add_row({Line(format_bytes(part.bytes)), Line(format_share(part.bytes, reserved)),
                   Line(glyph, part.style), Line(part.name), Line(part.why, Style::kFaint)});
  }
  page.add(table.draw(2, page.columns()));
}

// As many as fit in a line, and at least one: the finding about them has them all.
void draw_pinners(const State& state, Page& page) {
  const Line lead(tr("  held open by  "), Style::kFaint);
  std::string text;
  for (const explain::Pinner& pinner : state.pinners) {
    const std::string next =
        trf("{}{} ({} keep {} free)", text.empty() ? "" : tr(", "), printable(pinner.name),
            format_bytes(pinner.pinned_bytes), format_bytes(pinner.stranded_bytes));
    const int width = lead.width() + display_width(text) + display_width(next);
    if (!text.empty() && width > page.columns()) break;
    text += next;
  }
  if (!text.empty()) page.paragraph(lead, text);
}

}  // namespace

void draw_waste(const Subject& subject, Page& page) {
  const State& state = subject.device.at_reserved_peak;
  const uint64_t reserved = state.moment.totals.reserved_bytes;
  if (reserved == 0) return;
  const auto parts = parts_of(state);
  const uint64_t wasted = wasted_of(state.waste);
  page.heading(tr("WASTE"), trf("{} ({}) of the {} reserved {}", format_bytes(wasted),
                                format_share(wasted, reserved), format_bytes(reserved),
                                when(subject.report.clock, subject.device, state.moment)));
  draw_bar(parts, page);
  draw_parts(parts, reserved, page);
  if (!subject.detail.has_waste_notes) return page.leave_out(tr("what holds segments open"));
  draw_pinners(state, page);
  if (state.waste.largest_hole_bytes == 0) return;
  const std::string bytes = format_bytes(state.waste.largest_hole_bytes);
  const std::string domain = printable(state.waste.largest_hole_domain);
  page.paragraph(Line(tr("  largest fit   "), Style::kFaint),
                 domain.empty()
                     ? trf("{}: more than that needs a new segment", bytes)
                     : trf("{} ({}): more than that needs a new segment", bytes, domain));
}

}  // namespace vram::show
