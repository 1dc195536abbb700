#include "show/json_state.hpp"

#include "base/text.hpp"
#include "show/names.hpp"
#include "show/sections/breakdown.hpp"

#include <algorithm>
#include <span>

namespace vram::show {
namespace {

using explain::Breakdown;
using explain::Dimension;

Json json_holder(const explain::Holder& holder, Dimension by) {
  return {{"by", identifier(by)},
          {"name", json_text(holder.name)},
          {"requested_bytes", holder.requested_bytes},
          {"block_bytes", holder.block_bytes},
          {"count", holder.count},
          {"largest_bytes", holder.largest_bytes},
          {"oldest_ns", holder.oldest_ns},
          {"before_recording", holder.before_recording},
          {"stack", json_stack(holder.stack)}};
}

std::span<const explain::Holder> listed(const Breakdown& breakdown, size_t top) {
  const std::span<const explain::Holder> all = breakdown.holders;
  return top == 0 ? all : all.first(std::min(top, all.size()));
}

Json json_holders(const Breakdown& breakdown, size_t top) {
  Json holders = Json::array();
  for (const explain::Holder& holder : listed(breakdown, top))
    holders.push_back(json_holder(holder, breakdown.by));
  return holders;
}

// What --top left out, so that the sums still hold.
Json json_others(const Breakdown& breakdown, size_t top) {
  explain::Holder sum;
  for (const explain::Holder& holder :
       std::span(breakdown.holders).subspan(listed(breakdown, top).size())) {
    sum.requested_bytes += holder.requested_bytes;
    sum.block_bytes += holder.block_bytes;
    sum.count += holder.count;
  }
  return {{"requested_bytes", sum.requested_bytes},
          {"block_bytes", sum.block_bytes},
          {"count", sum.count}};
}

}  // namespace

Json json_stack(const std::vector<explain::Frame>& stack) {
  Json frames = Json::array();
  for (const explain::Frame& frame : stack) {
    frames.push_back({{"function", json_text(frame.function)},
                      {"file", json_text(frame.file)},
                      {"line", frame.line == 0 ? Json() : Json(frame.line)}});
  }
  return frames;
}

Json json_moment(const explain::Moment& moment, const explain::Steps& steps) {
  const auto step = step_of(steps, moment.event);
  return {{"time_ns", moment.time_ns},
          {"event", moment.event},
          {"step", step ? Json(*step) : Json()},
          {"requested_bytes", moment.totals.requested_bytes},
          {"allocated_bytes", moment.totals.allocated_bytes},
          {"active_bytes", moment.totals.active_bytes},
          {"reserved_bytes", moment.totals.reserved_bytes}};
}

Json json_waste(const explain::Waste& waste) {
  return {{"pending_bytes", waste.pending_bytes},
          {"rounding_bytes", waste.rounding_bytes},
          {"releasable_bytes", waste.releasable_bytes},
          {"stranded_bytes", waste.stranded_bytes},
          {"private_pool_bytes", waste.private_pool_bytes},
          {"hole_count", waste.hole_count},
          {"largest_hole_bytes", waste.largest_hole_bytes},
          {"largest_hole_domain", json_text(waste.largest_hole_domain)}};
}

Json json_pinners(const std::vector<explain::Pinner>& pinners) {
  Json result = Json::array();
  for (const explain::Pinner& pinner : pinners) {
    result.push_back({{"name", json_text(pinner.name)},
                      {"pinned_bytes", pinner.pinned_bytes},
                      {"stranded_bytes", pinner.stranded_bytes},
                      {"segment_count", pinner.segment_count}});
  }
  return result;
}

Json json_breakdowns(const explain::State& state, size_t top) {
  Json result = Json::array();
  for (const Breakdown& breakdown : state.breakdowns) {
    result.push_back({{"by", identifier(breakdown.by)},
                      {"holder_count", breakdown.holders.size()},
                      {"holders", json_holders(breakdown, top)},
                      {"others", json_others(breakdown, top)}});
  }
  return result;
}

Json json_main_holders(const explain::State& state, bool has_stacks, size_t top) {
  const Breakdown* main = main_breakdown(state, has_stacks);
  return main == nullptr ? Json::array() : json_holders(*main, top);
}

Json json_state(const explain::State& state, const explain::Steps& steps, size_t top) {
  Json result = json_moment(state.moment, steps);
  result["segment_count"] = state.segment_count;
  result["block_count"] = state.block_count;
  result["named_bytes"] = json_or_null(state.named_bytes);
  result["waste"] = json_waste(state.waste);
  result["breakdowns"] = json_breakdowns(state, top);
  result["pinners"] = json_pinners(state.pinners);
  return result;
}

}  // namespace vram::show
