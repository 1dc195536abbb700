// How programs find the driver's functions, and how this library does.
#pragma once

#include <cstdint>

namespace vram::tap {

// The C library's dlsym, not ours.
void* real_dlsym(void* handle, const char* name);
// A function of the driver that the program has loaded; nullptr where it has none.
void* driver_function(const char* name);
// What a call of the function would reach without this library; nullptr: nothing.
void* linked_function(const char* name);
// What cuGetProcAddress gives where it has found a function: a stand-in for what is watched.
void* watched(const char* base_name, uint64_t flags, void* found);

}  // namespace vram::tap
