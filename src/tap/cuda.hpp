// The used part of CUDA's driver API, declared here so that no toolkit is needed; and how programs
// find its functions, and how this library does.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vram::tap {

using Result = int;  // CUresult
using Device = int;
using DevicePointer = unsigned long long;
using Handle = unsigned long long;  // CUmemGenericAllocationHandle
using Stream = void*;
using Context = void*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;

struct MemoryProperties {  // CUmemAllocationProp
  int type;
  int handle_types;
  int location_type;
  int location;
  void* security;
  unsigned char flags[8];
};
static_assert(sizeof(MemoryProperties) == 32);

inline constexpr int kLocationDevice = 1;          // CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kAttributeMemoryType = 2;     // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
inline constexpr int kAttributeDeviceOrdinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
inline constexpr unsigned kMemoryTypeHost = 1;     // CU_MEMORYTYPE_HOST

// The C library's dlsym, not ours.
void* real_dlsym(void* handle, const char* name);
// Returns a function of the loaded driver; nullptr if it has none.
void* driver_function(const char* name);
// Returns the function that a call would reach without this library; nullptr: none.
void* linked_function(const char* name);

}  // namespace vram::tap
