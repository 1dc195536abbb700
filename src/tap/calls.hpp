// The driver's functions that are watched: each has a stand-in of the same name and signature,
// which calls the driver's own. A program that is linked to the driver calls the stand-in by its
// name, as this library is preloaded; one that looks for the function is answered with the
// stand-in. A function has several names where a per-thread default stream is meant, too.
#pragma once

#include <atomic>

namespace vram::tap {

struct Call {
  const char* name;         // as the driver exports it
  const char* base_name;    // as cuGetProcAddress is asked for it
  void* (*stand_in)();      // its address
  std::atomic<void*>* own;  // the driver's, once it was found
};

// By the name that the driver exports; nullptr: not watched.
[[nodiscard]] const Call* find_call(const char* name);
// By the name that cuGetProcAddress takes, and whether the per-thread stream's form is wanted.
[[nodiscard]] const Call* find_call_by_base(const char* base_name, bool is_per_thread);

}  // namespace vram::tap
