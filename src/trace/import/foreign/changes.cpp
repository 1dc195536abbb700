#include "trace/import/foreign/changes.hpp"

#include "trace/allocators.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

namespace vram::trace {

std::pair<DeviceKind, uint32_t> device_of_allocator(std::string_view name) {
  constexpr std::string_view kGpu = "GPU_";
  constexpr uint32_t kMaxOrdinal = 4096;
  const size_t at = name.find(kGpu);
  uint32_t ordinal = 0;
  if (at == name.npos) return {DeviceKind::kHost, 0};
  const std::string_view digits = name.substr(at + kGpu.size());
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  if (read.ec != std::errc() || ordinal >= kMaxOrdinal) return {DeviceKind::kHost, 0};
  return {DeviceKind::kGpu, ordinal};
}

void place_changes(std::vector<MemoryChange> changes, Trace& trace) {
  std::ranges::stable_sort(changes, {},
                           [](const MemoryChange& c) { return std::pair(c.kind, c.device); });
  for (const MemoryChange& change : changes) {
    if (trace.devices.empty() || trace.devices.back().kind != change.kind ||
        trace.devices.back().ordinal != change.device) {
      DeviceTrace device;
      device.kind = change.kind;
      device.ordinal = change.device;
      device.first_event = trace.events.size();
      trace.devices.push_back(std::move(device));
    }
    trace.devices.back().event_count += 2;
    Event block;
    block.time_ns = change.time_ns;
    block.address = change.address;
    block.size_bytes = change.requested_bytes;
    block.stack = change.stack;
    block.pool = kUnknownPool;
    block.kind = change.is_alloc ? EventKind::kAlloc : EventKind::kFreeCompleted;
    Event segment = block;
    segment.size_bytes = change.block_bytes;
    segment.kind = change.is_alloc ? EventKind::kSegmentAlloc : EventKind::kSegmentFree;
    trace.events.push_back(change.is_alloc ? segment : block);
    trace.events.push_back(change.is_alloc ? block : segment);
  }
  trace.settings.push_back({std::string(kAllocatorSetting), std::string(kUnknownAllocator)});
}

}  // namespace vram::trace
