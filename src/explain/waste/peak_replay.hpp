// PeakReplay: the peak of requested memory if blocks were freed earlier, allocated later or not at
// all: the recording is replayed with the change made. Exact for the change as stated; the program
// is assumed to request the same otherwise.
//
// Holds the requested bytes after each event: 8 bytes for each event. Not thread-safe.
#pragma once

#include "base/pod_vector.hpp"
#include "explain/history/history.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vram::explain {

inline constexpr int64_t kNeverGone = std::numeric_limits<int64_t>::max();

// A block that is not there in the states after the events [from, until), in which it was.
struct Change {
  uint32_t lifetime = 0;
  int64_t from = 0;
  int64_t until = kNeverGone;
  uint64_t bytes = 0;  // 0: the block's; else of a group that lives at least as long as this block
};

// The states after the events [born, gone) contain the block.
[[nodiscard]] inline int64_t born(const Lifetime& lifetime) {
  return lifetime.alloc_event == kBeforeRecording ? -1 : int64_t{lifetime.alloc_event};
}
[[nodiscard]] inline int64_t gone(const Lifetime& lifetime) {
  return lifetime.free_completed_event == kNever ? kNeverGone
                                                 : int64_t{lifetime.free_completed_event};
}
// When the program released it: before gone() if another stream still used it.
[[nodiscard]] inline int64_t released(const Lifetime& lifetime) {
  return lifetime.free_requested_event == kNever ? gone(lifetime)
                                                 : int64_t{lifetime.free_requested_event};
}
// Until when the block is missing if the program releases it earlier. How long another stream would
// still use it then is unknown, so the time from its release until it is gone stays as recorded.
[[nodiscard]] inline int64_t release_moved(const Lifetime& lifetime) {
  return gone(lifetime) == released(lifetime) + 1 ? gone(lifetime) : released(lifetime);
}
[[nodiscard]] inline Change remove_block(const History& history, uint32_t id) {
  return {id, born(history.lifetimes[id]), gone(history.lifetimes[id])};
}

class PeakReplay {
 public:
  PeakReplay(std::span<const trace::Event> events, const History& history);

  [[nodiscard]] uint64_t peak() const { return peak_; }
  // With all these changes made; at most one for each block and event. O(n log n) in the changes.
  [[nodiscard]] uint64_t peak_with(std::span<const Change> changes) const;
  // What the changes take off the peak.
  [[nodiscard]] uint64_t saved_by(std::span<const Change> changes) const {
    return changes.empty() ? 0 : peak_ - peak_with(changes);
  }

 private:
  // Over the states [first, end), numbered from the one before the first event.
  [[nodiscard]] uint64_t largest_in(uint64_t first, uint64_t end) const;

  const History& history_;
  PodVector<uint64_t> requested_;  // in each state
  PodVector<uint64_t> largest_;    // in each kBlock states
  uint64_t peak_ = 0;
};

}  // namespace vram::explain
