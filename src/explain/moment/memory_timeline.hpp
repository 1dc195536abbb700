// MemoryTimeline: what a device's allocator held over time, as plain values that outlive the
// recording: for whoever plays it. At each time the same as a report's --at has it.
#pragma once

#include "base/result.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vram::explain {

struct TimelinePoint {
  int64_t time_ns = 0;  // as EventClock has it; rises from point to point
  uint64_t allocated_bytes = 0;
  uint64_t reserved_bytes = 0;
};

struct MemoryTimeline {
  uint32_t ordinal = 0;
  bool has_time = false;                 // else times are numbers of events
  int64_t end_ns = 0;                    // of the last event
  std::optional<uint64_t> memory_bytes;  // what the device has in all
  uint64_t peak_requested_bytes = 0;     // by it reports choose the device to lead with
  std::vector<TimelinePoint> points;     // from time 0 on; one for each change, at least one
};

// Of the device that a report leads with: the GPU with the largest peak. kBadInput: the recording
// has neither events nor segments. Linear in the events; allocates a point for each change.
[[nodiscard]] Result<MemoryTimeline> timeline_of(const trace::Trace& trace);

}  // namespace vram::explain
