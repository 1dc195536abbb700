// How programs find the driver's functions, and how this library does.
#pragma once

namespace vram::tap {

// The C library's dlsym, not ours.
void* real_dlsym(void* handle, const char* name);
// Returns a function of the loaded driver; nullptr if it has none.
void* driver_function(const char* name);
// Returns the function that a call would reach without this library; nullptr: none.
void* linked_function(const char* name);

}  // namespace vram::tap
