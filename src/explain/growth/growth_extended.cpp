#include "explain/growth/growth_extended.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

namespace vram::explain {
namespace {

// Of ten steps, each with more than the last one, the p-value is 3e-7.
constexpr double kMaxExtendedP = 1e-6;
constexpr size_t kMinExtendedBlocks = 10;
constexpr double kMinReplacedShare = 0.9;
constexpr uint32_t kReplacedWithin = 64;  // events

// Of the blocks that are freed, which are in the order of their allocation.
double replaced_share(const History& history, const GrowthWindow& w, const GrowthGroup& g) {
  const auto allocated = [&](const Holdover& b) {
    return history.lifetimes[b.lifetime].alloc_event;
  };
  size_t freed = 0;
  size_t replaced = 0;
  for (size_t i = 0; i < g.blocks.size(); ++i) {
    const Holdover& b = g.blocks[i];
    if (b.death == w.steps || b.birth < w.warmup || b.from_setup) continue;
    const Lifetime& l = history.lifetimes[b.lifetime];
    const uint32_t at = std::min(l.free_requested_event, l.free_completed_event);
    ++freed;
    const auto later = std::ranges::partition_point(
        g.blocks.begin() + static_cast<ptrdiff_t>(i) + 1, g.blocks.end(),
        [&](const Holdover& other) { return allocated(other) < at; });
    const Holdover& last = *(later - 1);
    if (last.bytes > b.bytes && at - allocated(last) <= kReplacedWithin) ++replaced;
  }
  return freed == 0 ? 0 : static_cast<double>(replaced) / static_cast<double>(freed);
}

}  // namespace

bool is_extended(const History& history, const GrowthWindow& w, GrowthGroup* g,
                 uint64_t min_bytes) {
  if (g->alive_bytes + g->early_bytes > 0 || g->blocks.size() < kMinExtendedBlocks ||
      replaced_share(history, w, *g) < kMinReplacedShare)
    return false;
  g->trend = trend_of(w, *g);
  if (g->trend.p_value > kMaxExtendedP) return false;
  const Slope slope = slope_of(w, *g);
  return slope.low > 0 && slope.median * (w.steps - w.warmup) >= static_cast<double>(min_bytes);
}

std::vector<GrowthGroup> extended_without_stacks(const History& history, const GrowthWindow& w,
                                                 const std::vector<GrowthSite>& sites,
                                                 const std::vector<GrowthGroup>& groups,
                                                 uint64_t min_bytes) {
  std::vector<GrowthGroup> found;
  std::unordered_set<uint32_t> taken;  // by lifetime
  for (uint32_t Holdover::* const from : {&Holdover::to_end, &Holdover::from_begin}) {
    std::map<std::pair<uint64_t, uint32_t>, GrowthGroup> positions;
    for (const GrowthGroup& g : groups) {
      const GrowthSite& site = sites[g.blocks.front().site];
      if (site.frame != 0) continue;
      for (const Holdover& b : g.blocks) {
        if (!b.from_setup && b.birth >= w.warmup && !taken.contains(b.lifetime))
          positions[{site.stream, b.*from}].blocks.push_back(b);
      }
    }
    for (auto& [position, g] : positions) {
      if (g.blocks.size() < kMinExtendedBlocks) continue;
      std::ranges::sort(g.blocks, {}, &Holdover::lifetime);
      count_births(w, &g);
      if (!is_extended(history, w, &g, min_bytes)) continue;
      for (const Holdover& b : g.blocks) taken.insert(b.lifetime);
      found.push_back(std::move(g));
    }
  }
  return found;
}

}  // namespace vram::explain
