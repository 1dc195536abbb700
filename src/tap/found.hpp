// How programs find the driver's functions, and how this library does.
#pragma once

namespace vram::tap {

// The C library's dlsym, not ours.
void* real_dlsym(void* handle, const char* name);
// A function of the driver that the program has loaded; nullptr where it has none.
void* driver_function(const char* name);
// What a call of the function would reach without this library; nullptr: nothing.
void* linked_function(const char* name);

}  // namespace vram::tap
