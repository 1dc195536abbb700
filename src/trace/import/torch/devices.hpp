// Devices of a snapshot under construction: whose events and whose segments. Private to
// assemble.cpp.
#pragma once

#include "base/result.hpp"
#include "trace/import/torch/collected.hpp"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

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

// `part`: what vram states, if it wrote the file.
[[nodiscard]] Result<DeviceMap> gather_devices(Collected& collected, const VramPart& part,
                                               ListOwners& owners);

// Brings the events of all devices into the map's order without gaps; DevicePieces::first_event
// follows.
[[nodiscard]] Result<> order_events(PodVector<Event>& events, DeviceMap& devices);

// Segments by address, with the blocks that are theirs.
void place_segments(Collected& collected, const DevicePieces& pieces, bool only_device,
                    DeviceTrace& device);

// allocator_settings as flat texts, and the state of the recorder's ring that they contain.

// {"roundup_power2_divisions": {"1": 0}} becomes "roundup_power2_divisions.1" = "0"; values as
// Python prints them.
[[nodiscard]] std::vector<Setting> flatten_settings(Collected& collected);

struct RingFlags {
  std::vector<bool> of_device;
  bool of_all = false;
  uint64_t max_entries = 0;  // 0: unknown

  [[nodiscard]] bool overflowed(uint32_t ordinal, uint64_t entries) const {
    return of_all || (ordinal < of_device.size() && of_device[ordinal]) ||
           (max_entries != 0 && entries >= max_entries);
  }
};

[[nodiscard]] RingFlags ring_flags(const Collected& collected);

// Empty if another program wrote the file.
[[nodiscard]] VramPart vram_part(const Collected& collected);

}  // namespace vram::trace::torch
