// The watched functions of the driver: each has a replacement with the same name and signature. A
// program linked to the driver calls the replacement because this library is preloaded. A program
// that looks a function up gets a replacement for exactly the function it would have found, which
// may not be the driver's: another preloaded tool can be between the program and the driver.
#pragma once

namespace vram::tap {

struct Call {
  const char* name;       // as the driver exports it
  const char* base_name;  // its name for cuGetProcAddress
  int version;            // of CUDA from which on cuGetProcAddress gives this form of it
  void* (*by_name)();     // returns the replacement of that name
  // Returns a replacement that calls the function; the function itself if there are too many.
  void* (*in_place_of)(void* function);
};

// By the name that the driver exports; nullptr: not watched.
[[nodiscard]] const Call* find_call(const char* name);
// Finds the variant that cuGetProcAddress returns for a name, with or without the per-thread
// stream.
[[nodiscard]] const Call* find_call_by_base(const char* base_name, int version, bool is_per_thread);

}  // namespace vram::tap
