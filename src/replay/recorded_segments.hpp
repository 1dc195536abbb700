// What a recording says about the driver: the calls its allocator made and the memory that was
// there before. Part of make_program (program.hpp); linear in the events.
#pragma once

#include "replay/program.hpp"
#include "trace/trace.hpp"

namespace vram::replay {

[[nodiscard]] constexpr bool takes(trace::EventKind kind) {
  return kind == trace::EventKind::kSegmentAlloc || kind == trace::EventKind::kSegmentMap;
}
[[nodiscard]] constexpr bool gives_back(trace::EventKind kind) {
  return kind == trace::EventKind::kSegmentFree || kind == trace::EventKind::kSegmentUnmap;
}

// Fills recorded_calls and initial_segments.
void read_recorded_segments(const trace::Trace& trace, const trace::DeviceTrace& device,
                            Program& program);

}  // namespace vram::replay
