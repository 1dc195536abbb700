// EventClock: the time of an event in reports: nanoseconds since the recording's first event on any
// device, or the event's number if the recording has no clock. The order is that of the events:
// clocks may step back, so "at a time" means up to the first later event. Views the trace; no
// allocation, no locks.
#pragma once

#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

namespace vram::explain {

// Files may hold any times: the difference wraps rather than overflows.
[[nodiscard]] inline int64_t nanoseconds_between(int64_t begin_ns, int64_t end_ns) {
  return static_cast<int64_t>(static_cast<uint64_t>(end_ns) - static_cast<uint64_t>(begin_ns));
}

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
    return since_origin(events_[static_cast<size_t>(event)].time_ns);
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
  // Files may hold any number: the difference wraps rather than overflows.
  [[nodiscard]] int64_t since_origin(int64_t unix_ns) const {
    return static_cast<int64_t>(static_cast<uint64_t>(unix_ns) -
                                static_cast<uint64_t>(origin_unix_ns_));
  }
  std::span<const trace::Event> events_;
  bool has_time_;
  int64_t origin_unix_ns_ = 0;
};

}  // namespace vram::explain
