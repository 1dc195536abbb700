// The driver's functions that are watched: each has a stand-in with the same signature, which calls
// the driver's own. A function has several names where a per-thread default stream is meant, too.
#pragma once

#include <cstddef>

namespace vram::tap {

struct Call {
  const char* name;       // as the driver exports it
  const char* base_name;  // as cuGetProcAddress is asked for it
  void* stand_in;
  void** own;  // the driver's, once it was found
};

// By the name that the driver exports; nullptr: not watched.
[[nodiscard]] const Call* find_call(const char* name);
// By the name that cuGetProcAddress takes, and whether the per-thread stream's form is wanted.
[[nodiscard]] const Call* find_call_by_base(const char* base_name, bool is_per_thread);

}  // namespace vram::tap
