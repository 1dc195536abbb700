// The used part of NVML's binary interface, declared here so that no toolkit header is needed.
// Names, values and layouts are those of nvml.h, in each generation that drivers still have. The
// fake library of the tests (tests/fake_nvml) uses them too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vram::gpu::nvml {

// NOLINTBEGIN(readability-identifier-naming): NVML's own names
using nvmlDevice = struct nvmlDevice_st*;
using nvmlEventSet = struct nvmlEventSet_st*;
using nvmlGpmSample = struct nvmlGpmSample_st*;
// NOLINTEND(readability-identifier-naming)

enum NvmlReturn : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
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

// Written by the functions named _v3 in the drivers 535.43 to 535.86; before and after, it is V2.
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

struct ProcessBusy {  // nvmlProcessUtilizationSample_t
  uint32_t pid;
  uint64_t time_us;  // since 1970
  uint32_t busy_percent;
  uint32_t memory_percent;
  uint32_t encoder_percent;
  uint32_t decoder_percent;
};
static_assert(sizeof(ProcessBusy) == 32);

// Older drivers write less of it, from the same beginning.
struct PciInfo {
  char legacy_id[16];
  uint32_t domain;
  uint32_t bus;
  uint32_t device;
  uint32_t device_id;
  uint32_t subsystem_id;
  char id[32];
};
static_assert(sizeof(PciInfo) == 68);

struct TemperatureV1 {
  uint32_t version;
  uint32_t sensor;
  int32_t celsius;
};
static_assert(sizeof(TemperatureV1) == 12);
inline constexpr uint32_t kTemperatureV1Version = sizeof(TemperatureV1) | (1U << 24U);

// A figure that is read by its number, several in one call.
struct FieldValue {
  uint32_t field;
  uint32_t scope;
  int64_t time_us;
  int64_t latency_us;
  int32_t type;
  int32_t result;  // NvmlReturn; whatever the driver writes
  union {
    double as_double;
    uint32_t as_u32;
    uint64_t as_u64;
    int64_t as_i64;
    int32_t as_i32;
    uint16_t as_u16;
  } value;
};
static_assert(sizeof(FieldValue) == 40);

enum FieldType : int32_t {
  kTypeDouble = 0,
  kTypeUnsigned = 1,
  kTypeUnsignedLong = 2,
  kTypeUnsignedLongLong = 3,
  kTypeLongLong = 4,
  kTypeInt = 5,
  kTypeUnsignedShort = 6,
};

enum Field : uint32_t {
  kFieldMemoryCelsius = 82,
  kFieldNvlinkSentKib = 138,
  kFieldNvlinkReceivedKib = 139,
  kFieldPowerNow = 186,  // milliwatts; its neighbour, the average, takes the driver milliseconds
  kFieldPcieSentBytes = 197,
  kFieldPcieReceivedBytes = 198,
  kFieldRecoveryAction = 230,
};
inline constexpr uint32_t kAllLinks = UINT32_MAX;  // the scope of NVLink's fields

inline constexpr uint32_t kClockGraphics = 0;
inline constexpr uint32_t kClockMemory = 2;
inline constexpr uint32_t kEccCorrected = 0;
inline constexpr uint32_t kEccUncorrected = 1;
inline constexpr uint32_t kEccSinceBoot = 0;
inline constexpr uint32_t kEccEver = 1;
inline constexpr uint32_t kRetiredForCorrected = 0;  // several in one page
inline constexpr uint32_t kRetiredForUncorrected = 1;

inline constexpr uint64_t kEventXid = 0x8;

struct EventV1 {
  nvmlDevice device;
  uint64_t type;
  uint64_t data;
};
static_assert(sizeof(EventV1) == 24);

struct EventV2 {
  nvmlDevice device;
  uint64_t type;
  uint64_t data;
  uint32_t gpu_instance;
  uint32_t compute_instance;
};
static_assert(sizeof(EventV2) == 32);

struct GpmSupport {
  uint32_t version;
  uint32_t is_supported;
};
static_assert(sizeof(GpmSupport) == 8);
inline constexpr uint32_t kGpmSupportVersion = 1;

struct GpmMetric {
  uint32_t metric;
  int32_t result;  // NvmlReturn; whatever the driver writes
  double value;
  const char* texts[3];  // its names and its unit
};
static_assert(sizeof(GpmMetric) == 40);

// The array has the length of the oldest header, the shortest; only the first `count` are read.
struct GpmMetrics {
  uint32_t version;
  uint32_t count;
  nvmlGpmSample older;
  nvmlGpmSample newer;
  GpmMetric metrics[98];
};
static_assert(sizeof(GpmMetrics) == 24 + 98 * sizeof(GpmMetric));
inline constexpr uint32_t kGpmMetricsVersion = 1;

enum GpmMetricNumber : uint32_t {
  kGpmMemoryBandwidthPercent = 10,  // of the peak
  kGpmPcieSentMib = 20,             // a second, as those that follow
  kGpmPcieReceivedMib = 21,
  kGpmNvlinkReceivedMib = 60,  // over all links
  kGpmNvlinkSentMib = 61,
};

inline constexpr size_t kTextBytes = 96;  // of names, versions and UUIDs

}  // namespace vram::gpu::nvml
