// Replays of a recording with other allocators, as curves of reserved memory over the same time.
// The allocators are those of the report's what-if, if it has one. Runs a thread for each of them;
// otherwise pure.
#pragma once

#include "base/json.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <cstdint>

namespace vram::pages {

// Each event of a replay takes up to a microsecond, so larger recordings have none.
inline constexpr uint64_t kMaxReplayedEvents = 2'000'000;
inline constexpr uint32_t kCurveSlices = 1000;

// {capacity_bytes, replays: [{allocator, is_recorded, basis, completed, peak_reserved_bytes,
// retries, driver_time_ns, oom_time_ns, times_ns, reserved_bytes}]}; null for host memory, and for
// recordings that are too small or too large.
[[nodiscard]] Json json_replays(const trace::Trace& trace, const trace::DeviceTrace& device,
                                const explain::DeviceReport& report);

}  // namespace vram::pages
