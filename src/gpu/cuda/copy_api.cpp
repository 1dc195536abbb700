#include "gpu/cuda/copy_api.hpp"

#include "gpu/symbols.hpp"

namespace vram::gpu::cuda {

Result<CopyApi> CopyApi::load(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return fail(Code::kNotFound, "expected the CUDA driver as {}, found that it can't be opened",
                path);
  }
  CopyApi api;
  Symbols symbols(library);
  symbols.find("cuMemHostAlloc", api.mem_host_alloc);
  symbols.find("cuMemFreeHost", api.mem_free_host);
  symbols.find("cuStreamCreate", api.stream_create);
  symbols.find("cuStreamDestroy_v2", api.stream_destroy);
  symbols.find("cuMemcpyHtoDAsync_v2", api.memcpy_htod_async);
  symbols.find("cuMemcpyDtoHAsync_v2", api.memcpy_dtoh_async);
  symbols.find("cuMemcpyDtoDAsync_v2", api.memcpy_dtod_async);
  symbols.find("cuMemsetD32Async", api.memset_d32_async);
  symbols.find("cuDeviceGetName", api.device_get_name);
  // Since 11.4 there is one that tells the parts of a divided device apart.
  symbols.find_newest("cuDeviceGetUuid_v2", "cuDeviceGetUuid", api.device_get_uuid);
  symbols.find("cuDeviceGetPCIBusId", api.device_get_pci_bus_id);
  if (!symbols.missing().empty()) {
    return fail(Code::kUnsupported,
                "expected a CUDA driver of version 11.0 or later as {}, found a library without "
                "{}: update NVIDIA's driver",
                path, symbols.missing());
  }
  return api;
}

}  // namespace vram::gpu::cuda
