// Curve: the totals of one device after every event, in one linear pass: exact peaks, the timeline,
// and the totals at any event. As in PyTorch's counters, requested and active bytes fall when a
// free completes, and allocated bytes when it is requested. TotalsWalker is the pass itself, for
// totals event by event.
#pragma once

#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "explain/history/history.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vram::explain {

// EventClock: the time of an event in reports: nanoseconds since the recording's first event on any
// device, or the event's number if the recording has no clock. The order is that of the events:
// clocks may step back, so "at a time" means up to the first later event. Views the trace; no
// allocation, no locks.

class EventClock {
 public:
  EventClock(const trace::Trace& trace, const trace::DeviceTrace& device)
      : events_(trace.events_of(device)), has_time_(trace.has_time) {
    if (!has_time_) return;
    std::optional<int64_t> first;
    for (const trace::DeviceTrace& each : trace.devices) {
      if (each.event_count == 0) continue;
      const int64_t begin = trace.events[each.first_event].time_ns;
      first = first ? std::min(*first, begin) : begin;
    }
    origin_unix_ns_ = first.value_or(0);
  }

  [[nodiscard]] Clock kind() const { return has_time_ ? Clock::kTime : Clock::kEventIndex; }
  [[nodiscard]] int64_t origin_unix_ns() const { return origin_unix_ns_; }
  // The recording begins with its first event: kBeforeFirstEvent has the time of that.
  [[nodiscard]] int64_t time_ns(int64_t event) const {
    event = std::max<int64_t>(event, 0);
    if (!has_time_ || static_cast<uint64_t>(event) >= events_.size()) return event;
    return nanoseconds_between(origin_unix_ns_, events_[static_cast<size_t>(event)].time_ns);
  }
  // The last event before the first one that is later than `time_ns`; nullopt when already the
  // first is later.
  [[nodiscard]] std::optional<uint64_t> event_at(int64_t time_ns) const {
    uint64_t end = 0;
    while (end < events_.size() && this->time_ns(static_cast<int64_t>(end)) <= time_ns) ++end;
    if (end == 0) return std::nullopt;
    return end - 1;
  }

 private:
  std::span<const trace::Event> events_;
  bool has_time_;
  int64_t origin_unix_ns_ = 0;
};

// Steps through a device's events and keeps the totals. Views its arguments; allocates nothing.
class TotalsWalker {
 public:
  // Starts before the first event.
  TotalsWalker(std::span<const trace::Event> events, const History& history);
  // Starts where `totals` applied: before event number `next_event`.
  TotalsWalker(std::span<const trace::Event> events, const History& history, uint64_t next_event,
               const Totals& totals);

  [[nodiscard]] const Totals& totals() const { return totals_; }
  [[nodiscard]] uint64_t next_event() const { return next_; }
  [[nodiscard]] bool at_end() const { return next_ >= history_->lifetime_of_event.size(); }
  // Applies the next event. True when a total may have risen.
  bool step();

 private:
  bool apply_block_event(const trace::Event& event, const Lifetime& lifetime);
  bool apply_segment_event(const trace::Event& event);
  void apply_implied_frees();
  void release(const Lifetime& lifetime);

  std::span<const trace::Event> events_;
  const History* history_;
  Totals totals_;
  uint64_t next_ = 0;
  size_t next_implied_ = 0;
  size_t next_ignored_ = 0;
};

struct Curve {
  Peak peak;  // over the states before the first event and after each
  // Of the moments at which most was reserved, the first of those with most requested.
  Moment fullest;
  int64_t end_ns = 0;  // of the latest event; clocks may step back
  std::vector<TimelineSlice> timeline;
  Totals initial;                 // before the first event
  Totals last;                    // after the last one
  PodVector<Totals> checkpoints;  // before events 0, kCheckpointEvents, 2 * kCheckpointEvents, ...
};

inline constexpr uint64_t kCheckpointEvents = 4096;

[[nodiscard]] Curve draw_curve(const trace::Trace& trace, const trace::DeviceTrace& device,
                               const History& history, const EventClock& clock,
                               uint32_t timeline_slices);

// After this event, or before the first one; in at most kCheckpointEvents steps.
[[nodiscard]] Moment moment_after(const trace::Trace& trace, const trace::DeviceTrace& device,
                                  const History& history, const EventClock& clock,
                                  const Curve& curve, int64_t event);

// MemoryTimeline: the memory of a device's allocator over time, as plain values that outlive the
// recording, for playback. At each time equal to a report's --at.

struct TimelinePoint {
  int64_t time_ns = 0;  // as EventClock has it; rises from point to point
  uint64_t allocated_bytes = 0;
  uint64_t reserved_bytes = 0;
};

struct MemoryTimeline {
  uint32_t ordinal = 0;
  bool has_time = false;                 // else times are numbers of events
  int64_t end_ns = 0;                    // of the last event
  std::optional<uint64_t> memory_bytes;  // the device's total memory
  uint64_t peak_requested_bytes = 0;     // by it reports choose the device to lead with
  std::vector<TimelinePoint> points;     // from time 0 on; one for each change, at least one
};

// Of the device that a report leads with: the GPU with the largest peak. kBadInput: the recording
// has neither events nor segments. Linear in the events; allocates a point for each change.
[[nodiscard]] Result<MemoryTimeline> timeline_of(const trace::Trace& trace);

}  // namespace vram::explain
