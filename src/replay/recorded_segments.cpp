#include "replay/recorded_segments.hpp"

#include "replay/peers/vram_rules.hpp"

namespace vram::replay {

std::vector<DriverCall> recorded_calls(const trace::Tables& tables,
                                       std::span<const trace::Event> events) {
  std::vector<DriverCall> calls;
  for (uint32_t i = 0; i < events.size(); ++i) {
    const trace::Event& event = events[i];
    if (!is_segment_event(event.kind) || is_of_vram(tables, event.context)) continue;
    const auto kind = static_cast<DriverCall::Kind>(
        static_cast<uint8_t>(event.kind) - static_cast<uint8_t>(trace::EventKind::kSegmentAlloc));
    calls.push_back({kind, event.size_bytes, event.address, i});
  }
  return calls;
}

}  // namespace vram::replay
