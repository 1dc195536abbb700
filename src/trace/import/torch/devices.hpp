// Devices of a snapshot under construction: whose events and whose segments. Private to
// assemble.cpp.
#pragma once

#include "base/result.hpp"
#include "trace/import/torch/collected.hpp"

#include <cstdint>
#include <map>
#include <utility>

namespace vram::trace::torch {

struct DevicePieces {
  uint64_t first_event = 0;
  uint64_t event_count = 0;
  // includes entries that became no event: the size of the recorder's ring
  uint64_t entry_count = 0;
  bool trace_truncated = false;
  std::vector<uint64_t> segments;  // indices into Collected::segments
};

using DeviceKey = std::pair<DeviceKind, uint32_t>;
using DeviceMap = std::map<DeviceKey, DevicePieces>;

// Which entry list belongs to which device: for annotations that were entries.
using ListOwners = std::map<uint32_t, DeviceKey>;

[[nodiscard]] Result<DeviceMap> gather_devices(Collected& collected, ListOwners& owners);

// Brings the events of all devices into the map's order without gaps; DevicePieces::first_event
// follows.
[[nodiscard]] Result<> order_events(PodVector<Event>& events, DeviceMap& devices);

// Segments by address, with the blocks that are theirs.
void place_segments(Collected& collected, const DevicePieces& pieces, bool only_device,
                    DeviceTrace& device);

}  // namespace vram::trace::torch
