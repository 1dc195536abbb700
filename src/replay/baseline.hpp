// Baseline: what a device held before the first recorded event, reconstructed from both ends: a
// free without an allocation is a block that existed, and undoing the segment events backwards from
// the end state gives the initial segments.
//
// With an end state and all events since some moment (even if the recorder's ring dropped older
// ones) this is exact, except for the unsplit remainders of blocks known only by their free.
// Without an end state, or if the file lacks its last events, segments are known only by their own
// frees, and others are assumed where events need them. Not thread-safe; allocates for each
// distinct address.
#pragma once

#include "replay/segment_map.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace vram::replay {

struct InitialBlock {
  uint64_t address = 0;
  uint64_t requested_bytes = 0;
  uint64_t block_bytes = 0;  // 0: only its free is known; the heap derives the size
  trace::StackId stack = 0;
  trace::StreamId stream = 0;
  trace::PoolId pool = 0;
  bool is_pending = false;  // its free was requested before the first event
};

// Which alloc events are of blocks that were there before (trace::kFoundBlock).
class FoundBlocks {
 public:
  explicit FoundBlocks(const trace::Tables& tables);
  [[nodiscard]] bool is_one(const trace::Event& event) const {
    return is_found(event.context) && event.kind == trace::EventKind::kAlloc;
  }
  // Is the context that of such an event?
  [[nodiscard]] bool is_found(trace::ContextId context) const {
    return context < contexts_.size() && contexts_[context];
  }

 private:
  std::vector<bool> contexts_;  // empty if there is none
};

struct Baseline {
  SegmentMap segments;
  std::vector<InitialBlock> blocks;  // by address
  // Of blocks that the recording found (trace::kFoundBlock) and that live at the end: their sizes.
  std::unordered_map<uint64_t, uint64_t> found_bytes;
  uint64_t assumed_segment_bytes = 0;
  // segment events that the end state denies, blocks live there that the trace freed
  uint64_t contradictions = 0;
  std::string first_contradiction;
  bool completes_on_request = false;  // the recording has no free_completed events at all
};

// Returns whether the end state can be compared with the events; not for a truncated file, which
// lacks the last events.
[[nodiscard]] bool has_checkable_end_state(const trace::Trace& trace,
                                           const trace::DeviceTrace& device);

[[nodiscard]] Baseline find_baseline(const trace::Trace& trace, const trace::DeviceTrace& device,
                                     const FoundBlocks& found);

// Adds segments for places that the replay needed and no segment covers: the end state's where it
// has one there, else the 2 MiB pages around them.
void assume_segments(const trace::DeviceTrace& device, std::span<const AddressRange> outside,
                     Baseline& baseline);

}  // namespace vram::replay
