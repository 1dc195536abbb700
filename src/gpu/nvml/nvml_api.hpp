// NvmlApi: the functions of libnvidia-ml.so.1 as a table, opened at run time. A function that the
// driver's generation lacks is null, and takes only its own figure away. Nvml stands on it.
//
// Once loaded the library stays open for the life of the process. The table never changes: any
// thread may load and may call.
#pragma once

#include "base/result.hpp"
#include "gpu/nvml/nvml_types.hpp"

#include <string>

namespace vram::gpu::nvml {

struct NvmlApi {
  using ListProcesses = NvmlReturn(nvmlDevice device, unsigned* count, void* entries);

  NvmlReturn (*init)() = nullptr;
  NvmlReturn (*shutdown)() = nullptr;
  NvmlReturn (*device_get_count)(unsigned* count) = nullptr;
  NvmlReturn (*device_get_handle)(unsigned index, nvmlDevice* device) = nullptr;

  // From here on each may be null.
  const char* (*error_string)(NvmlReturn result) = nullptr;
  NvmlReturn (*device_get_name)(nvmlDevice device, char* name, unsigned capacity) = nullptr;
  NvmlReturn (*device_get_uuid)(nvmlDevice device, char* uuid, unsigned capacity) = nullptr;
  NvmlReturn (*device_get_memory_v1)(nvmlDevice device, MemoryV1* memory) = nullptr;
  NvmlReturn (*device_get_memory_v2)(nvmlDevice device, MemoryV2* memory) = nullptr;
  NvmlReturn (*device_get_utilization)(nvmlDevice device, Utilization* utilization) = nullptr;
  struct Lists {  // by the version of the function's name
    ListProcesses* v1 = nullptr;
    ListProcesses* v2 = nullptr;
    ListProcesses* v3 = nullptr;
  };
  Lists compute;
  Lists graphics;
  bool is_v3_of_535 = false;  // what _v3 writes is ProcessV3Of535

  // kNotFound: no such library. kUnsupported: a library that is not NVML.
  [[nodiscard]] static Result<NvmlApi> load(const std::string& path);

  // "GPU is lost (15)".
  [[nodiscard]] std::string name_of(NvmlReturn result) const;
};

}  // namespace vram::gpu::nvml
