#include "replay/recorded_segments.hpp"

#include "base/bytes.hpp"
#include "replay/peers/vram_rules.hpp"

#include <algorithm>
#include <map>
#include <span>

namespace vram::replay {
namespace {

using trace::Event;
using trace::EventKind;

// Ranges by address, none overlapping: the end state's segments, from which the events are undone
// backwards.
class Ranges {
 public:
  // Mapped ranges join those that they touch.
  void add(InitialSegment range) {
    if (range.size_bytes == 0) return;
    auto next = ranges_.lower_bound(range.address);
    if (next != ranges_.end() && next->first < range.address + range.size_bytes) return;
    if (next != ranges_.begin() && end_of(std::prev(next)->second) > range.address) return;
    if (next != ranges_.end() && joins(range, next->second)) {
      range.size_bytes += next->second.size_bytes;
      range.is_small |= next->second.is_small;
      next = ranges_.erase(next);
    }
    if (next != ranges_.begin() && joins(std::prev(next)->second, range)) {
      std::prev(next)->second.size_bytes += range.size_bytes;
      std::prev(next)->second.is_small |= range.is_small;
    } else {
      ranges_.emplace(range.address, range);
    }
  }
  // Cuts [address, address + bytes) out of the range that holds it, if one does.
  void remove(uint64_t address, uint64_t bytes) {
    auto found = ranges_.upper_bound(address);
    if (found == ranges_.begin()) return;
    --found;
    const InitialSegment old = found->second;
    if (end_of(old) < address + bytes) return;
    ranges_.erase(found);
    InitialSegment part = old;
    part.size_bytes = address - old.address;
    add(part);
    part.address = address + bytes;
    part.size_bytes = end_of(old) - part.address;
    add(part);
  }
  [[nodiscard]] std::vector<InitialSegment> all() const {
    std::vector<InitialSegment> list;
    for (const auto& [address, range] : ranges_) list.push_back(range);
    return list;
  }

 private:
  static uint64_t end_of(const InitialSegment& range) { return range.address + range.size_bytes; }
  static bool joins(const InitialSegment& low, const InitialSegment& high) {
    return low.is_expandable && high.is_expandable && end_of(low) == high.address &&
           low.stream == high.stream;
  }
  std::map<uint64_t, InitialSegment> ranges_;
};

InitialSegment range_of(const Event& event) {
  return {.address = event.address,
          .size_bytes = event.size_bytes,
          .stream = event.stream,
          .pool = event.pool,
          .is_small = event.size_bytes == 2 * kMiB,
          .is_expandable = event.kind == EventKind::kSegmentUnmap};
}

// With every last event at hand, undoing them all from the end state leaves what was there before;
// else only what is given back without having been taken is known.
std::vector<InitialSegment> segments_before(const trace::Trace& trace,
                                            const trace::DeviceTrace& device) {
  const std::span<const Event> events = trace.events_of(device);
  Ranges ranges;
  if (device.has_end_state && !trace.origin.truncated_at_byte) {
    for (const trace::Segment& segment : device.segments) {
      ranges.add({.address = segment.address,
                  .size_bytes = segment.size_bytes,
                  .stream = segment.stream,
                  .pool = segment.pool,
                  .is_small = segment.is_small,
                  .is_expandable = segment.is_expandable});
    }
    for (size_t i = events.size(); i-- > 0;) {
      if (takes(events[i].kind)) ranges.remove(events[i].address, events[i].size_bytes);
      if (gives_back(events[i].kind)) ranges.add(range_of(events[i]));
    }
    return ranges.all();
  }
  std::map<uint64_t, uint64_t> taken;
  for (const Event& event : events) {
    // Recordings of vram's pool begin with what it has, and its pages move.
    if (is_vrams(trace.tables, event.context)) continue;
    if (takes(event.kind)) taken[event.address] = event.size_bytes;
    if (gives_back(event.kind) && taken.erase(event.address) == 0) ranges.add(range_of(event));
  }
  return ranges.all();
}

}  // namespace

void read_recorded_segments(const trace::Trace& trace, const trace::DeviceTrace& device,
                            Program& program) {
  const std::span<const Event> events = trace.events_of(device);
  program.initial_segments = segments_before(trace, device);
  for (uint32_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    if (event.kind < EventKind::kSegmentAlloc || event.kind > EventKind::kSegmentUnmap) continue;
    const auto kind = static_cast<DriverCall::Kind>(static_cast<uint8_t>(event.kind) -
                                                    static_cast<uint8_t>(EventKind::kSegmentAlloc));
    program.recorded_calls.push_back({kind, event.size_bytes, event.address, i});
  }
}

}  // namespace vram::replay
