// The driver's functions that are watched: each has a stand-in of the same name and signature. A
// program that is linked to the driver calls it by its name, as this library is preloaded. One that
// looks for the function is answered with a stand-in for just what it has found, since that need
// not be what others find: another tool that is preloaded stands between the program and the
// driver, and looks for the driver's own.
#pragma once

namespace vram::tap {

struct Call {
  const char* name;       // as the driver exports it
  const char* base_name;  // as cuGetProcAddress is asked for it
  int version;            // of CUDA from which on cuGetProcAddress gives this form of it
  void* (*by_name)();     // the stand-in of that name
  // The stand-in that calls the function; the function itself if there are too many such.
  void* (*in_place_of)(void* function);
};

// By the name that the driver exports; nullptr: not watched.
[[nodiscard]] const Call* find_call(const char* name);
// The form that cuGetProcAddress gives for a name, and whether the per-thread stream's is wanted.
[[nodiscard]] const Call* find_call_by_base(const char* base_name, int version, bool is_per_thread);

}  // namespace vram::tap
