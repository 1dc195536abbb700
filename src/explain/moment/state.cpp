#include "explain/moment/state.hpp"

#include "explain/history/allocator_rules.hpp"
#include "explain/moment/breakdown.hpp"
#include "explain/moment/curve.hpp"
#include "explain/moment/live_set.hpp"
#include "explain/moment/waste.hpp"

#include <array>

namespace vram::explain {
namespace {

constexpr std::array kDimensions = {Dimension::kStack, Dimension::kUserFrame, Dimension::kScope,
                                    Dimension::kSize,  Dimension::kStream,    Dimension::kAge,
                                    Dimension::kPool};

std::optional<uint64_t> named_bytes(const Sources& sources, const LiveSet& live) {
  const Names& names = sources.names;
  if (!names.has_labels() && !names.has_paths()) return std::nullopt;
  uint64_t bytes = 0;
  for (const uint32_t id : live.lifetimes)
    bytes += names.label(id) != 0 ? sources.history.lifetimes[id].requested_bytes : 0;
  return bytes;
}

}  // namespace

std::vector<State> states_after(const Sources& sources, std::span<const int64_t> events) {
  const AllocatorRules rules = rules_of(sources.trace, sources.device.kind);
  std::vector<State> states;
  for (const LiveSet& live : gather_live(sources.trace, sources.device, sources.history, events)) {
    State& state = states.emplace_back();
    state.moment = moment_after(sources.trace, sources.device, sources.history, sources.clock,
                                sources.curve, live.event);
    state.waste = measure_waste(sources, rules, live);
    state.pinners = find_pinners(sources, rules, live);
    state.segment_count = live.segments.ranges().size();
    state.block_count = live.lifetimes.size();
    state.named_bytes = named_bytes(sources, live);
    for (const Dimension by : kDimensions) {
      state.breakdowns.push_back(break_down(sources, live, by));
    }
    if (sources.names.has_labels())
      state.breakdowns.push_back(break_down(sources, live, Dimension::kCategory));
  }
  return states;
}

}  // namespace vram::explain
