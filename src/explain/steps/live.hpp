// LiveWalk: requested and reserved bytes while walking over the events of one device in order.
// Steps, phases and growth walk this way; the exact peaks and every other total are curve's.
#pragma once

#include "explain/history/history.hpp"
#include "trace/trace.hpp"

#include <algorithm>
#include <cstdint>

namespace vram::explain {

// Files may hold any times: the difference wraps rather than overflows.
[[nodiscard]] inline int64_t nanoseconds_between(int64_t begin_ns, int64_t end_ns) {
  return static_cast<int64_t>(static_cast<uint64_t>(end_ns) - static_cast<uint64_t>(begin_ns));
}

class LiveWalk {
 public:
  LiveWalk(const trace::Trace& trace, const trace::DeviceTrace& device, const History& history)
      : events_(trace.events_of(device)),
        history_(history),
        reserved_(history.initial_reserved_bytes) {
    for (uint64_t i = 0; i < history.before_recording_count; ++i) {
      requested_ += history.lifetimes[i].requested_bytes;
    }
  }

  // What event number `event` did. Requested bytes count a block until its free completes, as
  // PyTorch does.
  void apply(uint64_t event) {
    const trace::Event& e = events_[event];
    switch (e.kind) {
      case trace::EventKind::kAlloc:
        requested_ += bytes_of(event);
        break;
      case trace::EventKind::kFreeCompleted:
        requested_ -= std::min(requested_, bytes_of(event));
        break;
      case trace::EventKind::kSegmentAlloc:
      case trace::EventKind::kSegmentMap:
        reserved_ += e.size_bytes;
        break;
      case trace::EventKind::kSegmentFree:
      case trace::EventKind::kSegmentUnmap:
        reserved_ -= std::min(reserved_, e.size_bytes);
        break;
      default:
        break;
    }
  }

  [[nodiscard]] uint64_t requested_bytes() const { return requested_; }
  [[nodiscard]] uint64_t reserved_bytes() const { return reserved_; }

 private:
  [[nodiscard]] uint64_t bytes_of(uint64_t event) const {
    const uint32_t lifetime = history_.lifetime_of_event[event];
    return lifetime == kNoLifetime ? 0 : history_.lifetimes[lifetime].requested_bytes;
  }

  std::span<const trace::Event> events_;
  const History& history_;
  uint64_t requested_ = 0;
  uint64_t reserved_ = 0;
};

}  // namespace vram::explain
