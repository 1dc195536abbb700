// Requests that failed for good: what was asked, what was there, who held it.
#include "base/bytes.hpp"
#include "base/text.hpp"
#include "show/names.hpp"
#include "show/sections/breakdown.hpp"
#include "show/sections/sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace vram::show {
namespace {

using explain::Oom;

constexpr size_t kNames = 3;

std::string holders_text(const explain::State& state, bool has_stacks) {
  const explain::Breakdown* breakdown = main_breakdown(state, has_stacks);
  if (breakdown == nullptr || breakdown->holders.empty()) return "";
  std::string text;
  const size_t shown = std::min(breakdown->holders.size(), kNames);
  for (const explain::Holder& holder : std::span(breakdown->holders).first(shown)) {
    text += fmt::format("{}{} {}", text.empty() ? " Held most by " : ", ", printable(holder.name),
                        format_bytes(holder.requested_bytes));
  }
  return text + ".";
}

std::string limit_text(const Oom& oom) {
  if (!oom.limit_bytes) return "";
  return fmt::format(" under a limit of about {}", format_bytes(*oom.limit_bytes));
}

void draw_oom(const Subject& subject, const Oom& oom, Page& page) {
  const explain::Totals& totals = oom.moment.totals;
  Line lead("  ");
  lead.add("✖ ", Style::kBad);
  page.paragraph(
      lead, fmt::format("{}: asked for {}{}; the device had {} free, the largest hole was {}. {} "
                        "requested, {} reserved.{}",
                        when(subject.report.clock, subject.device, oom.moment),
                        format_bytes(oom.requested_bytes), limit_text(oom),
                        format_bytes(oom.device_free_bytes), format_bytes(oom.largest_hole_bytes),
                        format_bytes(totals.requested_bytes), format_bytes(totals.reserved_bytes),
                        holders_text(oom.state, subject.report.has_stacks)));
}

}  // namespace

void draw_ooms(const Subject& subject, Page& page) {
  const auto& ooms = subject.device.ooms;
  if (ooms.empty()) return;
  page.heading("OUT OF MEMORY", counted(subject.device.oom_count, "request") + " failed");
  const size_t shown = std::min(ooms.size(), subject.detail.ooms);
  for (const Oom& oom : std::span(ooms).first(shown)) draw_oom(subject, oom, page);
  const uint64_t rest = subject.device.oom_count - shown;
  if (rest > 0) page.add(Line(fmt::format("    and {} more", format_count(rest)), Style::kFaint));
}

}  // namespace vram::show
