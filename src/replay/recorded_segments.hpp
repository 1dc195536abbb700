// The calls that a recorded allocator made to the driver. Part of make_program (program.hpp);
// linear in the events.
#pragma once

#include "replay/program.hpp"
#include "trace/trace.hpp"

#include <span>
#include <vector>

namespace vram::replay {

[[nodiscard]] constexpr bool takes(trace::EventKind kind) {
  return kind == trace::EventKind::kSegmentAlloc || kind == trace::EventKind::kSegmentMap;
}
[[nodiscard]] constexpr bool gives_back(trace::EventKind kind) {
  return kind == trace::EventKind::kSegmentFree || kind == trace::EventKind::kSegmentUnmap;
}

// Without those of vram's pool: its recordings contain its pages, not its driver calls.
[[nodiscard]] std::vector<DriverCall> recorded_calls(const trace::Tables& tables,
                                                     std::span<const trace::Event> events);

}  // namespace vram::replay
