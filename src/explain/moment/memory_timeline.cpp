#include "explain/moment/memory_timeline.hpp"

#include "explain/about.hpp"
#include "explain/history/history.hpp"
#include "explain/moment/clock.hpp"
#include "explain/moment/curve.hpp"

#include <algorithm>
#include <utility>

namespace vram::explain {
namespace {

void add_point(std::vector<TimelinePoint>& points, int64_t time_ns, const Totals& totals) {
  const TimelinePoint point{time_ns, totals.allocated_bytes, totals.reserved_bytes};
  if (!points.empty() && points.back().time_ns == time_ns) {
    points.back() = point;
    return;
  }
  if (!points.empty() && points.back().allocated_bytes == point.allocated_bytes &&
      points.back().reserved_bytes == point.reserved_bytes) {
    return;
  }
  points.push_back(point);
}

MemoryTimeline timeline_of_device(const trace::Trace& trace, const trace::DeviceTrace& device) {
  const History history = replay_history(trace, device);
  const EventClock clock(trace, device);
  TotalsWalker walker(trace.events_of(device), history);
  MemoryTimeline timeline{.ordinal = device.ordinal,
                          .has_time = trace.has_time,
                          .end_ns = 0,
                          .memory_bytes = memory_bytes_of(trace, device),
                          .peak_requested_bytes = walker.totals().requested_bytes,
                          .points = {}};
  add_point(timeline.points, 0, walker.totals());
  while (!walker.at_end()) {
    // A clock that stepped back: what comes later is seen later.
    timeline.end_ns =
        std::max(timeline.end_ns, clock.time_ns(static_cast<int64_t>(walker.next_event())));
    walker.step();
    add_point(timeline.points, timeline.end_ns, walker.totals());
    timeline.peak_requested_bytes =
        std::max(timeline.peak_requested_bytes, walker.totals().requested_bytes);
  }
  return timeline;
}

}  // namespace

Result<MemoryTimeline> timeline_of(const trace::Trace& trace) {
  std::optional<MemoryTimeline> lead;
  bool is_host = true;
  for (const trace::DeviceTrace& device : trace.devices) {
    const bool is_gpu = device.kind == trace::DeviceKind::kGpu;
    if (lead && !is_gpu && !is_host) continue;
    MemoryTimeline timeline = timeline_of_device(trace, device);
    const bool leads =
        !lead || (is_gpu && is_host) || timeline.peak_requested_bytes > lead->peak_requested_bytes;
    if (!leads) continue;
    lead = std::move(timeline);
    is_host = !is_gpu;
  }
  if (!lead) {
    return fail(Code::kBadInput, "{} has neither events nor segments of GPU memory",
                trace.origin.path);
  }
  return *std::move(lead);
}

}  // namespace vram::explain
