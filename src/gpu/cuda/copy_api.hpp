// CopyApi: the part of the CUDA driver that moves bytes and names devices, as a table of its own
// (driver.hpp has the rest): allocators load none of it.
//
// Names as in cuda.h, less the cu; where cuda.h maps a name to a newer version, it is that one. The
// streams' functions are those of the legacy default stream (without _ptsz), as DriverApi's are.
#pragma once

#include "base/result.hpp"
#include "gpu/cuda/driver_types.hpp"

#include <cstdint>
#include <string>

namespace vram::gpu::cuda {

struct CUuuid {  // NOLINT(readability-identifier-naming): CUDA's own name
  unsigned char bytes[16] = {};
};

struct CopyApi {
  CUresult (*mem_host_alloc)(void** host, size_t bytes, unsigned flags) = nullptr;
  CUresult (*mem_free_host)(void* host) = nullptr;
  CUresult (*stream_create)(CUstream* stream, unsigned flags) = nullptr;
  CUresult (*stream_destroy)(CUstream stream) = nullptr;
  CUresult (*memcpy_htod_async)(CUdeviceptr to, const void* from, size_t bytes,
                                CUstream stream) = nullptr;
  CUresult (*memcpy_dtoh_async)(void* to, CUdeviceptr from, size_t bytes,
                                CUstream stream) = nullptr;
  CUresult (*memcpy_dtod_async)(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                CUstream stream) = nullptr;
  CUresult (*memset_d32_async)(CUdeviceptr to, unsigned word, size_t words,
                               CUstream stream) = nullptr;
  CUresult (*device_get_name)(char* name, int size, CUdevice device) = nullptr;
  CUresult (*device_get_uuid)(CUuuid* uuid, CUdevice device) = nullptr;
  CUresult (*device_get_pci_bus_id)(char* id, int size, CUdevice device) = nullptr;

  // Of a library that DriverApi has loaded. kUnsupported: it lacks one of them; the message says
  // which.
  [[nodiscard]] static Result<CopyApi> load(const std::string& path = "libcuda.so.1");
};

}  // namespace vram::gpu::cuda
