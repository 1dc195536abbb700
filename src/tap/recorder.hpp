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

// Returns whether this process is recorded and no allocator reports its own driver calls. Loads the
// library at the first call.
[[nodiscard]] bool is_wanted();
// The caller may hold any lock of the program's.
[[nodiscard]] uint32_t stack_of_caller();
void write_event(Kind kind, Device device, DevicePointer address, size_t bytes, Stream stream,
                 uint32_t stack);

}  // namespace vram::tap
