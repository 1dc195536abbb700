// Recorded allocations and mappings by their address: a free counts for the device that has the
// memory, whatever the current context, and one unmapping may cover several mappings. May be used
// from any thread; its lock is held during a lookup.
#pragma once

#include "tap/cuda.hpp"

namespace vram::tap {

struct Allocation {
  DevicePointer address = 0;
  size_t bytes = 0;
  Device device = 0;  // kHost: known, but not recorded
};

// In place of what began there: it went unseen.
void add_allocation(const Allocation& allocation);
// Removes it; false: it is unknown.
[[nodiscard]] bool take_allocation(DevicePointer address, Allocation* taken);
// The first one that begins in the range, taken out; false: none does.
[[nodiscard]] bool take_allocation_in(DevicePointer begin, DevicePointer end, Allocation* taken);

}  // namespace vram::tap
