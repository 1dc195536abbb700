// Calls to the recorder (libvram.so, record.h), which is loaded at its first use.
#pragma once

#include "tap/cuda.hpp"

#include <cstdint>

namespace vram::tap {

enum class Kind : int {  // vram_event_kind
  kAlloc = 0,
  kFree = 2,
  kSegmentAlloc = 5,
  kSegmentFree = 6,
  kSegmentMap = 7,
  kSegmentUnmap = 8,
  kOom = 10,
};

// What of the driver's calls is recorded. Loads the library at the first call.
enum class Wanted {
  kNothing,
  kEvents,
  // An allocator reports its own calls. Those of others are summed by library (owners.hpp).
  kSums,
};
[[nodiscard]] Wanted what_is_wanted();
// The caller may hold any lock of the program's.
[[nodiscard]] uint32_t stack_of_caller();
void write_event(Kind kind, Device device, DevicePointer address, size_t bytes, Stream stream,
                 uint32_t stack);
// They have no effect unless this process is recorded. Whether it is.
bool write_figure(Device device, const char* name, uint64_t value);
void write_copy(bool is_to_device, Device device, size_t bytes, uint64_t duration_ns);

}  // namespace vram::tap
