// SegmentMap: the address ranges taken from the device at one moment. Built forwards or backwards
// from segment events: the baseline goes back from the end state, explain's heap and states go
// forward. Not thread-safe; allocates once for each segment event, never for a block.
#pragma once

#include "replay/peers/torch_rules.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <map>

namespace vram::replay {

struct AddressRange {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
};

// A segment, or a run of mapped pages of an expandable one.
struct SegmentRange {
  uint64_t size_bytes = 0;
  trace::StreamId stream = 0;
  trace::PoolId pool = 0;
  bool is_small = false;
  bool is_expandable = false;
  trace::ContextId context = 0;      // of the event: identifies the allocator
  uint32_t last_block = 0xffffffff;  // for explain's heap: the block at the range's end
};

class SegmentMap {
 public:
  using Ranges = std::map<uint64_t, SegmentRange>;

  // Mapped pages join the adjacent expandable ranges of their stream; segments never join. The
  // result is of the small pool if a part is known to be. Returns false without effect if the range
  // would overlap another.
  bool add(uint64_t address, const SegmentRange& range);

  // Removes a whole segment, or any part of an expandable range. Returns false without effect if it
  // does not exist.
  bool remove(uint64_t address, uint64_t size_bytes);

  // Applies a segment event; other kinds are no business of this map (true).
  bool apply(const trace::Event& event);
  // Undoes it, for walking backwards.
  bool undo(const trace::Event& event);

  [[nodiscard]] Ranges::iterator containing(uint64_t address);
  [[nodiscard]] Ranges::const_iterator containing(uint64_t address) const;
  // The expandable range that pages of `stream` at `address` would continue; end() when there is
  // none.
  [[nodiscard]] Ranges::iterator ending_at(uint64_t address, trace::StreamId stream);
  [[nodiscard]] Ranges::iterator starting_at(uint64_t address, trace::StreamId stream);

  [[nodiscard]] Ranges& ranges() { return ranges_; }
  [[nodiscard]] const Ranges& ranges() const { return ranges_; }
  [[nodiscard]] uint64_t total_bytes() const;

 private:
  [[nodiscard]] bool overlaps(uint64_t address, uint64_t size_bytes) const;
  Ranges ranges_;
};

using trace::is_segment_event;
// Do size and address make sense at all? What does not is left out of every replay. The end of what
// is left can be rounded up to a page.
[[nodiscard]] inline bool is_plausible(uint64_t address, uint64_t size_bytes) {
  return size_bytes <= kMaxRequestBytes &&
         address <= UINT64_MAX - 2 * size_bytes - kSmallSegmentBytes;
}
[[nodiscard]] SegmentRange range_of(const trace::Event& event);
[[nodiscard]] SegmentRange range_of(const trace::Segment& segment);

}  // namespace vram::replay
