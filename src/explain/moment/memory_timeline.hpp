// MemoryTimeline: the memory of a device's allocator over time, as plain values that outlive the
// recording, for playback. At each time equal to a report's --at.
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
  std::optional<uint64_t> memory_bytes;  // the device's total memory
  uint64_t peak_requested_bytes = 0;     // by it reports choose the device to lead with
  std::vector<TimelinePoint> points;     // from time 0 on; one for each change, at least one
};

// Of the device that a report leads with: the GPU with the largest peak. kBadInput: the recording
// has neither events nor segments. Linear in the events; allocates a point for each change.
[[nodiscard]] Result<MemoryTimeline> timeline_of(const trace::Trace& trace);

}  // namespace vram::explain
