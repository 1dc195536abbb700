// What was reserved at the reserved peak and in nobody's use, and why the next request could not
// have it.
#include "base/bytes.hpp"
#include "base/text.hpp"
#include "show/draw/bar.hpp"
#include "show/draw/table.hpp"
#include "show/names.hpp"
#include "show/sections/sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vram::show {
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
  return counted(waste.hole_count, "hole") + " between live blocks";
}

uint64_t wasted_of(const Waste& waste) {
  return waste.pending_bytes + waste.rounding_bytes + waste.releasable_bytes + waste.stranded_bytes;
}

constexpr size_t kParts = 6;

std::array<Part, kParts> parts_of(const State& state) {
  const Waste& waste = state.waste;
  const uint64_t unused = wasted_of(waste) + waste.private_pool_bytes;
  const uint64_t reserved = state.moment.totals.reserved_bytes;
  return {{{reserved - std::min(reserved, unused), "█", Style::kActive, "in use",
            "asked for and allocated"},
           {waste.private_pool_bytes, "▪", Style::kActive, "private pools",
            "their CUDA graphs or MemPools use it, nothing else can"},
           {waste.stranded_bytes, "╱", Style::kBad, "stranded", holes_text(waste)},
           {waste.releasable_bytes, "░", Style::kGood, "releasable",
            "whole segments: empty_cache() returns them"},
           {waste.pending_bytes, "▒", Style::kReserved, "pending",
            "freed, but another stream may use it yet"},
           {waste.rounding_bytes, "▓", Style::kWarning, "rounding",
            "blocks larger than what was asked for"}}};
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
  const Line lead("  held open by  ", Style::kFaint);
  std::string text;
  for (const explain::Pinner& pinner : state.pinners) {
    const std::string next =
        fmt::format("{}{} ({} keep {} free)", text.empty() ? "" : ", ", printable(pinner.name),
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
  page.heading("WASTE", fmt::format("{} ({}) of the {} reserved {}", format_bytes(wasted),
                                    format_share(wasted, reserved), format_bytes(reserved),
                                    when(subject.report.clock, subject.device, state.moment)));
  draw_bar(parts, page);
  draw_parts(parts, reserved, page);
  if (!subject.detail.has_waste_notes) return page.leave_out("what holds segments open");
  draw_pinners(state, page);
  if (state.waste.largest_hole_bytes == 0) return;
  std::string domain = printable(state.waste.largest_hole_domain);
  if (!domain.empty()) domain = " (" + domain + ")";
  page.paragraph(Line("  largest fit   ", Style::kFaint),
                 fmt::format("{}{}: more than that needs a new segment",
                             format_bytes(state.waste.largest_hole_bytes), domain));
}

}  // namespace vram::show
