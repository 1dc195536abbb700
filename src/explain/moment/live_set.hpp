// LiveSet: the segments and live blocks of a device at one moment, by address. The space between
// the blocks of a segment is free: free neighbours always merge, so a gap is a hole. Collected for
// several moments in one pass over the lifetimes and one over the segment events. Allocates for its
// result; not thread-safe.
#pragma once

#include "explain/history/history.hpp"
#include "replay/segment_map.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

struct LiveSet {
  int64_t event = 0;  // kBeforeFirstEvent: before the first one
  SegmentMap segments;
  std::vector<uint32_t> lifetimes;  // active after `event`, by address
};

// One for each of `events`, in their order.
[[nodiscard]] std::vector<LiveSet> gather_live(const trace::Trace& trace,
                                               const trace::DeviceTrace& device,
                                               const History& history,
                                               std::span<const int64_t> events);

// A segment and its live blocks: lifetimes[first .. last) of the set.
struct SegmentView {
  uint64_t address = 0;
  SegmentRange range;
  size_t first = 0;
  size_t last = 0;
};

[[nodiscard]] std::vector<SegmentView> view_segments(const History& history, const LiveSet& live);

// Calls hole(address, size_bytes) for each free range of a segment.
template <typename OnHole>
void for_each_hole(const History& history, const LiveSet& live, const SegmentView& segment,
                   OnHole&& hole) {
  uint64_t cursor = segment.address;
  for (size_t i = segment.first; i < segment.last; ++i) {
    const Lifetime& lifetime = history.lifetimes[live.lifetimes[i]];
    if (lifetime.address > cursor) hole(cursor, lifetime.address - cursor);
    cursor = lifetime.address + lifetime.block_bytes;
  }
  const uint64_t end = segment.address + segment.range.size_bytes;
  if (end > cursor) hole(cursor, end - cursor);
}

}  // namespace vram::explain
