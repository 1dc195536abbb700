// What was recorded as allocated or mapped, by where it begins: a free counts for the device that
// has the memory, whatever context it is called from, and one unmapping may be of several mappings.
// Any thread. Its lock is held for one look-up.
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
// Takes it out; false: it is not known.
[[nodiscard]] bool take_allocation(DevicePointer address, Allocation* taken);
// The first one that begins in the range, taken out; false: none does.
[[nodiscard]] bool take_allocation_in(DevicePointer begin, DevicePointer end, Allocation* taken);

}  // namespace vram::tap
