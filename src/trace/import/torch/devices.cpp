#include "trace/import/torch/devices.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <tuple>

namespace vram::trace::torch {

using pickle::Value;

namespace {

uint32_t ordinal_of(uint64_t device) {
  return static_cast<uint32_t>(std::min<uint64_t>(device, std::numeric_limits<uint32_t>::max()));
}

// A file made from a profile has one trace more than devices: the CPU's, the last.
std::optional<uint32_t> cpu_ordinal(const Collected& all) {
  if (!all.has_categories || !is(all.root[kDeviceTraces], kTraces)) return std::nullopt;
  const Traces& traces = all.traces[all.root[kDeviceTraces].payload()];
  if (traces.truncated) return std::nullopt;
  return static_cast<uint32_t>(traces.lists.size() - 1);
}

Result<> gather_traces(Collected& all, Key key, DeviceKind kind, DeviceMap& devices,
                       ListOwners& owners) {
  if (!is(all.root[key], kTraces)) return {};
  const Traces& traces = all.traces[all.root[key].payload()];
  const std::optional<uint32_t> cpu = key == kDeviceTraces ? cpu_ordinal(all) : std::nullopt;
  for (uint32_t i = 0; i < traces.lists.size(); ++i) {
    if (traces.lists[i] == Traces::kNoEntries) continue;
    Range& range = all.entry_lists[traces.lists[i]];
    if (range.taken) {
      return fail(Code::kBadInput,
                  "two devices share one list of entries, which no recording does");
    }
    range.taken = true;
    const bool is_cpu = cpu == i;
    const DeviceKey device = is_cpu ? DeviceKey{DeviceKind::kHost, 0} : DeviceKey{kind, i};
    owners[traces.lists[i]] = device;
    devices[device] = {range.first, range.count, range.count + range.left_out, range.truncated, {}};
  }
  return {};
}

void gather_segments(Collected& all, const Value& list, DeviceKind kind, uint32_t cpu,
                     DeviceMap& devices) {
  if (!is(list, kSegmentList)) return;
  Range& range = all.segment_lists[list.payload()];
  if (range.taken) return;
  range.taken = true;
  for (uint64_t i = range.first; i < range.first + range.count; ++i) {
    const uint32_t ordinal = ordinal_of(all.segments[i].device);
    const bool is_cpu = kind == DeviceKind::kGpu && ordinal == cpu;
    const DeviceKey device = is_cpu ? DeviceKey{DeviceKind::kHost, 0} : DeviceKey{kind, ordinal};
    devices[device].segments.push_back(i);
  }
}

}  // namespace

Result<DeviceMap> gather_devices(Collected& all, ListOwners& owners) {
  DeviceMap devices;
  Result<> gathered =
      gather_traces(all, kDeviceTraces, DeviceKind::kGpu, devices, owners).and_then([&] {
        return gather_traces(all, kHostTraces, DeviceKind::kHost, devices, owners);
      });
  if (!gathered) return tl::unexpected(gathered.error());
  const uint32_t cpu = cpu_ordinal(all).value_or(std::numeric_limits<uint32_t>::max());
  gather_segments(all, all.root[kSegments], DeviceKind::kGpu, cpu, devices);
  gather_segments(all, all.root[kHostSegments], DeviceKind::kHost, cpu, devices);
  return devices;
}

Result<> order_events(PodVector<Event>& events, DeviceMap& devices) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  bool in_order = true;
  for (const auto& [key, pieces] : devices) {
    if (pieces.event_count == 0) continue;
    in_order = in_order && (ranges.empty() || ranges.back().second <= pieces.first_event);
    ranges.emplace_back(pieces.first_event, pieces.first_event + pieces.event_count);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      return fail(Code::kBadInput, "two lists share entries, which no recording does");
    }
  }
  PodVector<Event> ordered;
  uint64_t next = 0;
  for (auto& [key, pieces] : devices) {
    if (in_order) {
      // The usual case: in place, and nothing moves unless entries were left out in between.
      if (next != pieces.first_event && pieces.event_count != 0) {
        std::memmove(static_cast<void*>(events.data() + next), events.data() + pieces.first_event,
                     pieces.event_count * sizeof(Event));
      }
    } else {
      ordered.append(events.data() + pieces.first_event, pieces.event_count);
    }
    pieces.first_event = next;
    next += pieces.event_count;
  }
  if (in_order) {
    events.truncate(next);
  } else {
    events = std::move(ordered);
  }
  return {};
}

void place_segments(Collected& all, const DevicePieces& pieces, bool only_device,
                    DeviceTrace& device) {
  // With one device the blocks stay where they are; else each device gets a copy of its own. So it
  // is, too, where the file holds blocks that are in no segment.
  uint64_t block_count = 0;
  for (const uint64_t index : pieces.segments)
    block_count += all.segments[index].segment.block_count;
  const bool take_all = only_device && block_count == all.blocks.size();
  if (take_all) device.blocks = std::move(all.blocks);
  for (const uint64_t index : pieces.segments) {
    Segment segment = all.segments[index].segment;
    if (!take_all) {
      const uint64_t first = device.blocks.size();
      device.blocks.append(all.blocks.data() + segment.first_block, segment.block_count);
      segment.first_block = first;
    }
    if (segment.block_count == 0) segment.first_block = 0;
    device.segments.push_back(segment);
  }
  std::sort(device.segments.begin(), device.segments.end(), [](const Segment& a, const Segment& b) {
    return std::tie(a.address, a.first_block) < std::tie(b.address, b.first_block);
  });
}

}  // namespace vram::trace::torch
