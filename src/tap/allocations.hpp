// Recorded allocations and mappings by their address: a free counts for the device that has the
// memory, whatever the current context, and one unmapping may cover several mappings. May be used
// from any thread; its lock is held during a lookup.
#pragma once

#include "tap/cuda.hpp"
#include "tap/owners.hpp"

#include <cstddef>
#include <cstdint>

namespace vram::tap {

struct Allocation {
  DevicePointer address = 0;
  size_t bytes = 0;
  Device device = 0;  // kHost: known, but not recorded
  Owner owner = kNoOwner;
  uint32_t stack = 0;
  Handle handle = 0;  // of a mapping
  // A handle's memory may be mapped at several addresses, and is counted at one of them.
  bool is_counted = true;
  DevicePointer next =
      0;  // the table's: another mapping of the same memory; the last has the first
};

// What is no longer there. If its memory is still mapped elsewhere and was counted here, it is
// counted at `heir` from now on. Without an address: none.
struct Gone {
  Allocation allocation;
  Allocation heir;
};

// In place of what began there, which went unseen. `is_added` is false if there is no memory for
// the table: the allocation's end will not be known.
struct Added {
  bool is_added = false;
  bool is_counted = true;
  Gone before;
};
Added add_allocation(const Allocation& allocation);
// Removes it; false: it is unknown.
[[nodiscard]] bool take_allocation(DevicePointer address, Gone* taken);
// The first one that begins in the range, taken out; false: none does.
[[nodiscard]] bool take_allocation_in(DevicePointer begin, DevicePointer end, Gone* taken);
// The driver has given the number of this handle to new memory. Mappings of its former memory may
// still be there: releasing a handle removes none.
void renew_handle(Handle handle);

// Finds the device of memory, by asking the driver. The current context determines it only for
// plain allocations: a stream or a pool may belong to another device, and memory may be freed from
// any context or none.

inline constexpr Device kHost = -1;  // memory of the host: not recorded

// The device of the calling thread's context; 0 without one.
[[nodiscard]] Device current_device();
// Of a stream; that of the current context for the default ones.
[[nodiscard]] Device device_of_stream(Stream stream);
// The device of a block that a pool allocated in the stream.
[[nodiscard]] Device device_of_block(DevicePointer address, Stream stream);
// Of what cuMemMap maps; `unknown` if the driver does not say, as of multicast objects.
[[nodiscard]] Device device_of_handle(Handle handle, Device unknown);

}  // namespace vram::tap
