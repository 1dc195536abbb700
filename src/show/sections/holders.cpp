// Who held the memory at the peak.
#include "base/bytes.hpp"
#include "show/names.hpp"
#include "show/sections/breakdown.hpp"
#include "show/sections/sections.hpp"

#include <fmt/format.h>

namespace vram::show {

void draw_holders(const Subject& subject, Page& page) {
  const explain::State& state = subject.device.at_peak;
  const explain::Breakdown* main = main_breakdown(state, subject.report.has_stacks);
  if (main == nullptr) return;
  page.heading("HOLDERS", fmt::format("of the {} requested at the peak, {} ({})",
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
  if (moment.event == explain::kBeforeFirstEvent) return "before the first event";
  return "after event " + format_count(static_cast<uint64_t>(moment.event));
}

}  // namespace

void draw_at(const Subject& subject, Page& page) {
  if (!subject.device.at) return;
  const explain::State& state = *subject.device.at;
  const explain::Totals& totals = state.moment.totals;
  page.heading("AT",
               fmt::format("{}, {}: {} requested, {} allocated, {} active, {} reserved",
                           when(subject.report.clock, subject.device, state.moment).substr(3),
                           event_text(state.moment), format_bytes(totals.requested_bytes),
                           format_bytes(totals.allocated_bytes), format_bytes(totals.active_bytes),
                           format_bytes(totals.reserved_bytes)));
  draw_breakdowns(state, subject.report.has_stacks, subject.detail, page);
}

}  // namespace vram::show
