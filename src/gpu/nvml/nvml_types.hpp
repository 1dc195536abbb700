// What of NVML's binary interface is used here, declared by hand: no header of a toolkit is needed.
// Names, values and layouts are those of nvml.h, in each generation that drivers still have. The
// fake library of the tests (tests/fake_nvml) speaks the same.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vram::gpu::nvml {

using nvmlDevice = struct nvmlDevice_st*;  // NOLINT(readability-identifier-naming): NVML's own name

enum NvmlReturn : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kOperatingSystem = 17,
  kLibRmVersionMismatch = 18,
  kArgumentVersionMismatch = 25,
  kDeprecated = 26,
  kUnknown = 999,
};

struct MemoryV1 {
  uint64_t total_bytes;
  uint64_t free_bytes;
  uint64_t used_bytes;
};
static_assert(sizeof(MemoryV1) == 24);

struct MemoryV2 {
  uint32_t version;
  uint64_t total_bytes;
  uint64_t reserved_bytes;
  uint64_t free_bytes;
  uint64_t used_bytes;
};
static_assert(sizeof(MemoryV2) == 40);
// The version of a struct is its size and its number.
inline constexpr uint32_t kMemoryV2Version = sizeof(MemoryV2) | (2U << 24U);

struct ProcessV1 {
  uint32_t pid;
  uint64_t used_bytes;
};
static_assert(sizeof(ProcessV1) == 16);

struct ProcessV2 {
  uint32_t pid;
  uint64_t used_bytes;
  uint32_t gpu_instance;
  uint32_t compute_instance;
};
static_assert(sizeof(ProcessV2) == 24);

// What the functions named _v3 write in the drivers 535.43 to 535.86; before and after it is V2.
struct ProcessV3Of535 {
  uint32_t pid;
  uint64_t used_bytes;
  uint32_t gpu_instance;
  uint32_t compute_instance;
  uint64_t protected_bytes;
};
static_assert(sizeof(ProcessV3Of535) == 32);

inline constexpr uint64_t kNotAvailable = UINT64_MAX;  // NVML_VALUE_NOT_AVAILABLE
inline constexpr uint32_t kNoInstance = UINT32_MAX;    // without MIG

struct Utilization {
  uint32_t gpu_percent;
  uint32_t memory_percent;
};

inline constexpr size_t kTextBytes = 96;  // of names and UUIDs

}  // namespace vram::gpu::nvml
