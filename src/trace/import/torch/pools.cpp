#include "trace/import/torch/pools.hpp"

#include <algorithm>
#include <map>

namespace vram::trace::torch {
namespace {

// Which pool owns which addresses at the moment the walk has reached.
class PoolMap {
 public:
  void add(uint64_t address, uint64_t size_bytes, PoolId pool) {
    remove(address, size_bytes);
    const uint64_t end = address + size_bytes;
    if (end > address) ranges_[address] = {end, pool};
  }

  void remove(uint64_t address, uint64_t size_bytes) {
    const uint64_t end = address + size_bytes;
    if (end <= address) return;
    auto at = ranges_.upper_bound(address);
    if (at != ranges_.begin() && std::prev(at)->second.end > address) --at;
    while (at != ranges_.end() && at->first < end) {
      const auto [begin, range] = *at;
      at = ranges_.erase(at);
      if (begin < address) ranges_[begin] = {address, range.pool};
      if (range.end > end) at = ranges_.insert_or_assign(end, range).first;
    }
  }

  [[nodiscard]] PoolId find(uint64_t address) const {
    auto at = ranges_.upper_bound(address);
    if (at == ranges_.begin()) return kUnknownPool;
    --at;
    return at->second.end > address ? at->second.pool : kUnknownPool;
  }

 private:
  struct Range {
    uint64_t end = 0;
    PoolId pool = 0;
  };
  std::map<uint64_t, Range> ranges_;  // by first address; they never overlap
};

void deduce(std::span<Event> events, const DeviceTrace& device) {
  PoolMap pools;
  for (const Segment& segment : device.segments) {
    pools.add(segment.address, segment.size_bytes, segment.pool);
  }
  for (size_t i = events.size(); i-- > 0;) {
    Event& event = events[i];
    switch (event.kind) {
      case EventKind::kAlloc:
      case EventKind::kFreeRequested:
      case EventKind::kFreeCompleted:
        event.pool = pools.find(event.address);
        break;
      case EventKind::kSegmentAlloc:
      case EventKind::kSegmentMap:
        event.pool = pools.find(event.address);
        pools.remove(event.address, event.size_bytes);
        break;
      case EventKind::kSegmentFree:
      case EventKind::kSegmentUnmap:
        event.pool = kUnknownPool;
        pools.add(event.address, event.size_bytes, kUnknownPool);
        break;
      default:
        break;
    }
  }
}

}  // namespace

void deduce_pools(Trace& trace) {
  if (trace.tables.pools.size() == 1) return;
  uint64_t unknown = 0;
  for (const DeviceTrace& device : trace.devices) {
    const std::span<Event> events(trace.events.data() + device.first_event, device.event_count);
    deduce(events, device);
    unknown += static_cast<uint64_t>(std::count_if(
        events.begin(), events.end(), [](const Event& e) { return e.pool == kUnknownPool; }));
  }
  trace.origin.notes.push_back(
      {"entries do not name their pool; it is deduced from the segments at the end"});
  if (unknown != 0) {
    trace.origin.notes.push_back(
        {"entries in segments that were given back: their pool is unknown", unknown});
  }
}

}  // namespace vram::trace::torch
