// CopyApi: the functions of the CUDA driver that copy memory and name devices, as a table
// (driver.hpp has the rest). Allocators do not load it.
//
// Names are those of cuda.h without "cu"; where cuda.h maps a name to a newer version, it is that
// version. Functions with streams use the legacy default stream (without _ptsz), as DriverApi's do.
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

  // Uses the library that DriverApi has loaded. kUnsupported: a function is missing; the message
  // names it.
  [[nodiscard]] static Result<CopyApi> load(const std::string& path = "libcuda.so.1");
};

}  // namespace vram::gpu::cuda
