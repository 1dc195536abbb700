// The used part of the CUDA driver's binary interface, declared here so that no toolkit header is
// needed. Names, values and layouts are those of cuda.h, and hold for every driver from version
// 11.0. The fake driver of the tests (tests/fake_cuda) uses them too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vram::gpu::cuda {

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUmemHandle = unsigned long long;  // CUmemGenericAllocationHandle
using CUcontext = struct CUctx_st*;      // NOLINT(readability-identifier-naming): CUDA's own names
using CUstream = struct CUstream_st*;    // NOLINT(readability-identifier-naming)
using CUevent = struct CUevent_st*;      // NOLINT(readability-identifier-naming)

enum CUresult : int {
  kSuccess = 0,
  kErrorInvalidValue = 1,
  kErrorOutOfMemory = 2,
  kErrorNotInitialized = 3,
  kErrorDeinitialized = 4,
  kErrorNoDevice = 100,
  kErrorInvalidDevice = 101,
  kErrorInvalidImage = 200,
  kErrorInvalidContext = 201,
  kErrorEccUncorrectable = 214,
  kErrorNvlinkUncorrectable = 220,
  kErrorInvalidHandle = 400,
  kErrorNotReady = 600,
  kErrorIllegalAddress = 700,
  kErrorLaunchTimeout = 702,
  kErrorAssert = 710,
  kErrorHardwareStack = 714,
  kErrorLaunchFailed = 719,
  kErrorNotSupported = 801,
  kErrorSystemDriverMismatch = 803,
  kErrorCaptureUnsupported = 900,
  kErrorCaptureInvalidated = 901,
  kErrorCaptureIsolation = 905,
  kErrorCaptureImplicit = 906,
  kErrorCapturedEvent = 907,
  kErrorCaptureWrongThread = 908,
  kErrorUnknown = 999,
};

enum CUattribute : int {  // CUdevice_attribute
  kVirtualMemoryManagementSupported = 102,
  kGpuDirectRdmaWithVmmSupported = 110,
};

enum CUcaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };
enum CUcaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureInvalidated = 2 };

inline constexpr unsigned kEventDisableTiming = 2;

enum CUmemLocationType : int { kLocationDevice = 1 };
enum CUmemAllocationType : int { kAllocationPinned = 1 };
enum CUmemAccessFlags : int { kAccessNone = 0, kAccessRead = 1, kAccessReadWrite = 3 };
enum CUmemGranularity : int { kGranularityMinimum = 0 };

struct CUmemLocation {
  CUmemLocationType type = kLocationDevice;
  int id = 0;
};

struct CUmemAllocationProp {
  struct Flags {
    unsigned char compression_type = 0;
    unsigned char gpu_direct_rdma_capable = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
  };
  CUmemAllocationType type = kAllocationPinned;
  int requested_handle_types = 0;
  CUmemLocation location;
  void* win32_handle_meta_data = nullptr;
  Flags flags;
};
static_assert(sizeof(CUmemAllocationProp) == 32);

struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccessFlags flags = kAccessReadWrite;
};
static_assert(sizeof(CUmemAccessDesc) == 12);

struct CUuuid {  // NOLINT(readability-identifier-naming): CUDA's own name
  unsigned char bytes[16] = {};
};

}  // namespace vram::gpu::cuda
