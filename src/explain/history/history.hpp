// History: the life of every block of one device, replayed from the recorded addresses; the basis
// of explain/.
//
// The replay follows the addresses: the allocator takes the low end of a free block and splits off
// the rest by known rules, so the block structure (with rounding, holes and exact active bytes)
// follows from the events alone, without modelling which block a best fit would have chosen.
#pragma once

#include "base/pod_vector.hpp"
#include "explain/report.hpp"
#include "replay/baseline.hpp"
#include "replay/segment_map.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

using replay::SegmentMap;
using replay::SegmentRange;

inline constexpr uint32_t kBeforeRecording = 0xffffffff;  // Lifetime::alloc_event
inline constexpr uint32_t kNever = 0xffffffff;            // Lifetime::free_*_event
inline constexpr uint32_t kNoLifetime = 0xffffffff;

// One use of an address, from allocation to free. Event fields are indexes of the device's events.
// A free without a request (only free_completed) leaves free_requested_event at kNever; a block
// whose free was pending before the recording has alloc_event = kBeforeRecording and
// free_requested_event = 0, which then does not refer to an event.
struct Lifetime {
  uint64_t address = 0;
  uint64_t requested_bytes = 0;
  // Its real size: rounded, with a remainder too small to split off.
  uint64_t block_bytes = 0;
  uint32_t alloc_event = kBeforeRecording;
  uint32_t free_requested_event = kNever;
  uint32_t free_completed_event = kNever;
  trace::StackId stack = 0;  // of the allocation; 0 if only the free is known
  trace::ContextId context = 0;
  trace::StreamId stream = 0;
  trace::PoolId pool = 0;
};
static_assert(sizeof(Lifetime) == 48);

// A block without a free: a later event shows that its space was free.
struct ImpliedFree {
  uint32_t event = 0;
  uint32_t lifetime = 0;
};

struct History {
  PodVector<Lifetime> lifetimes;  // before-recording ones first, then by alloc_event
  // per event of the device; kNoLifetime for markers and segment events
  PodVector<uint32_t> lifetime_of_event;
  uint64_t initial_reserved_bytes = 0;  // segments that were there before the first event
  uint64_t before_recording_count = 0;  // lifetimes[0 .. this)
  Verdict verdict;                      // replayed end state against the recorded segments
  SegmentMap initial_segments;          // the segments that were there before the first event
  // By event; their free_completed_event is the same.
  std::vector<ImpliedFree> implied_frees;
  std::vector<uint32_t> ignored_segment_events;  // contradict what was there, so left out; rising

  // Is it active / allocated after event number `event`?
  [[nodiscard]] bool active_at(const Lifetime& l, int64_t event) const {
    return (l.alloc_event == kBeforeRecording || l.alloc_event <= event) &&
           (l.free_completed_event == kNever || l.free_completed_event > event);
  }
  [[nodiscard]] bool allocated_at(const Lifetime& l, int64_t event) const {
    return active_at(l, event) &&
           (l.free_requested_event == kNever || l.free_requested_event > event);
  }
};

// Whether the free of this block was requested before the first event.
// Lifetime::free_requested_event is 0 then, as it also is if event 0 is the request.
[[nodiscard]] bool is_pending_before(std::span<const trace::Event> events, const History& history,
                                     uint32_t lifetime);

// Linear in the events. Never fails: contradictions are counted in the verdict and left out.
// `baseline`: the result of replay::find_baseline(), if available.
[[nodiscard]] History replay_history(const trace::Trace& trace, const trace::DeviceTrace& device,
                                     replay::Baseline baseline);
[[nodiscard]] History replay_history(const trace::Trace& trace, const trace::DeviceTrace& device);

}  // namespace vram::explain
