#include "cli/played.hpp"

#include "trace/open.hpp"

#include <algorithm>

namespace vram::cli {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kWithoutClockNs = 60 * kSecondNs;

}  // namespace

watch::Playable playable_of(const explain::MemoryTimeline& timeline) {
  const auto end = static_cast<uint64_t>(timeline.end_ns);
  const uint64_t tick_ns =
      timeline.has_time ? 1 : std::max<uint64_t>(kWithoutClockNs / std::max<uint64_t>(end, 1), 1);
  watch::Playable playable{.points = {},
                           .length_ns = end * tick_ns + kSecondNs,
                           .device = timeline.ordinal,
                           .total_bytes = timeline.memory_bytes};
  playable.points.reserve(timeline.points.size());
  for (const explain::TimelinePoint& point : timeline.points) {
    playable.points.push_back({static_cast<uint64_t>(point.time_ns) * tick_ns,
                               point.allocated_bytes, point.reserved_bytes});
  }
  return playable;
}

Result<watch::Playable> open_playable(const std::string& path) {
  const auto trace = trace::open_trace(path);
  if (!trace) return tl::unexpected(trace.error());
  return explain::timeline_of(*trace).map(playable_of);
}

}  // namespace vram::cli
