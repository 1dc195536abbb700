#include "explain/moment/waste.hpp"

#include "explain/moment/breakdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>

namespace vram::explain {
namespace {

bool is_pending_at(const Sources& sources, uint32_t lifetime, int64_t event) {
  const History& history = sources.history;
  if (event == kBeforeFirstEvent)
    return is_pending_before(sources.trace.events_of(sources.device), history, lifetime);
  return !history.allocated_at(history.lifetimes[lifetime], event);
}

// Whole granules inside a free range of an expandable segment: pages are unmapped by granule only.
uint64_t whole_granules(uint64_t begin, uint64_t size_bytes, uint64_t granule_bytes) {
  const uint64_t first = (begin + granule_bytes - 1) / granule_bytes;
  const uint64_t last = (begin + size_bytes) / granule_bytes;
  return last > first ? (last - first) * granule_bytes : 0;
}

bool is_private(const SegmentRange& range) {
  return range.pool != 0 && range.pool != trace::kUnknownPool;
}

uint64_t releasable_of(const SegmentView& segment, const AllocatorRules& rules,
                       uint64_t hole_address, uint64_t hole_bytes) {
  const SegmentRange& range = segment.range;
  if (hole_bytes == range.size_bytes) return hole_bytes;
  if (!range.is_expandable) return 0;
  const uint64_t granule = rules.granule_bytes(range.is_small);
  return whole_granules(hole_address - segment.address, hole_bytes, granule);
}

std::string domain_name(const trace::Tables& tables, const AllocatorRules& rules,
                        const SegmentRange& range) {
  if (rules.is_of_vram(range.context)) return "vram's pool";
  std::string name = range.is_small ? "requests up to 1 MiB" : "requests over 1 MiB";
  name += range.stream == 0 ? std::string(", default stream")
                            : fmt::format(", stream {:#x}", tables.streams[range.stream]);
  return name;
}

void measure_segment(const Sources& sources, const AllocatorRules& rules, const LiveSet& live,
                     const SegmentView& segment, Waste& waste) {
  for_each_hole(sources.history, live, segment, [&](uint64_t address, uint64_t size_bytes) {
    if (is_private(segment.range)) {
      waste.private_pool_bytes += size_bytes;
      return;
    }
    const uint64_t releasable = releasable_of(segment, rules, address, size_bytes);
    waste.releasable_bytes += releasable;
    waste.stranded_bytes += size_bytes - releasable;
    waste.hole_count += releasable < size_bytes ? 1 : 0;
    // The small pool serves requests up to 1 MiB only, however large its hole.
    const uint64_t usable = segment.range.is_small && !rules.is_of_vram(segment.range.context)
                                ? std::min(size_bytes, kSmallRequestBytes)
                                : size_bytes;
    if (usable <= waste.largest_hole_bytes) return;
    waste.largest_hole_bytes = usable;
    waste.largest_hole_domain = domain_name(sources.trace.tables, rules, segment.range);
  });
}

struct Pinned {
  uint64_t stranded_bytes = 0;
  uint64_t live_bytes = 0;
  uint64_t site = 0;
};

// The one site of all its live blocks, when there is only one.
std::optional<Pinned> single_site(const Sources& sources, const AllocatorRules& rules,
                                  const LiveSet& live, const SegmentView& segment,
                                  Grouping& sites) {
  if (segment.first == segment.last || is_private(segment.range)) return std::nullopt;
  Pinned pinned;
  for (size_t i = segment.first; i < segment.last; ++i) {
    const Lifetime& lifetime = sources.history.lifetimes[live.lifetimes[i]];
    const uint64_t site = sites.key(live.lifetimes[i]);
    if (i == segment.first) pinned.site = site;
    if (site != pinned.site || is_pending_at(sources, live.lifetimes[i], live.event)) {
      return std::nullopt;
    }
    pinned.live_bytes += lifetime.block_bytes;
  }
  for_each_hole(sources.history, live, segment, [&](uint64_t address, uint64_t size_bytes) {
    pinned.stranded_bytes += size_bytes - releasable_of(segment, rules, address, size_bytes);
  });
  if (pinned.stranded_bytes == 0) return std::nullopt;
  return pinned;
}

}  // namespace

Waste measure_waste(const Sources& sources, const AllocatorRules& rules, const LiveSet& live) {
  Waste waste;
  for (const uint32_t id : live.lifetimes) {
    const Lifetime& lifetime = sources.history.lifetimes[id];
    if (is_pending_at(sources, id, live.event)) {
      waste.pending_bytes += lifetime.block_bytes;
    } else {
      waste.rounding_bytes += lifetime.block_bytes - lifetime.requested_bytes;
    }
  }
  for (const SegmentView& segment : view_segments(sources.history, live)) {
    measure_segment(sources, rules, live, segment, waste);
  }
  return waste;
}

std::vector<Pinner> find_pinners(const Sources& sources, const AllocatorRules& rules,
                                 const LiveSet& live) {
  Grouping sites(sources, live, Dimension::kUserFrame);
  std::unordered_map<std::string, Pinner> by_name;
  for (const SegmentView& segment : view_segments(sources.history, live)) {
    const std::optional<Pinned> pinned = single_site(sources, rules, live, segment, sites);
    if (!pinned) continue;
    Pinner& pinner = by_name[sites.name(live.lifetimes[segment.first])];
    pinner.pinned_bytes += pinned->live_bytes;
    pinner.stranded_bytes += pinned->stranded_bytes;
    ++pinner.segment_count;
  }
  std::vector<Pinner> pinners;
  for (auto& [name, pinner] : by_name) {
    pinner.name = name;
    pinners.push_back(std::move(pinner));
  }
  std::sort(pinners.begin(), pinners.end(), [](const Pinner& a, const Pinner& b) {
    return a.stranded_bytes != b.stranded_bytes ? a.stranded_bytes > b.stranded_bytes
                                                : a.name < b.name;
  });
  return pinners;
}

}  // namespace vram::explain
