#include "gpu/nvml/nvml_api.hpp"

#include <dlfcn.h>

namespace vram::gpu::nvml {
namespace {

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

void find_figures(void* library, NvmlApi& api) {
  find(library, "nvmlErrorString", api.error_string);
  find(library, "nvmlDeviceGetName", api.device_get_name);
  find(library, "nvmlDeviceGetUUID", api.device_get_uuid);
  find(library, "nvmlDeviceGetMemoryInfo", api.device_get_memory_v1);
  find(library, "nvmlDeviceGetMemoryInfo_v2", api.device_get_memory_v2);
  find(library, "nvmlDeviceGetUtilizationRates", api.device_get_utilization);
}

void find_processes(void* library, NvmlApi& api) {
  find(library, "nvmlDeviceGetComputeRunningProcesses", api.compute.v1);
  find(library, "nvmlDeviceGetComputeRunningProcesses_v2", api.compute.v2);
  find(library, "nvmlDeviceGetComputeRunningProcesses_v3", api.compute.v3);
  find(library, "nvmlDeviceGetGraphicsRunningProcesses", api.graphics.v1);
  find(library, "nvmlDeviceGetGraphicsRunningProcesses_v2", api.graphics.v2);
  find(library, "nvmlDeviceGetGraphicsRunningProcesses_v3", api.graphics.v3);
  // No function says which layout it is. The first came with confidential computing, the second
  // with what gave the layout up again.
  api.is_v3_of_535 = dlsym(library, "nvmlDeviceGetConfComputeMemSizeInfo") != nullptr &&
                     dlsym(library, "nvmlDeviceGetRunningProcessDetailList") == nullptr;
}

}  // namespace

Result<NvmlApi> NvmlApi::load(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return fail(Code::kNotFound,
                "expected NVIDIA's management library as {}, found that it can't be opened ({}): "
                "install NVIDIA's driver, or make its libraries visible in the container",
                path, why == nullptr ? "no reason given" : why);
  }
  NvmlApi api;
  find(library, "nvmlInit_v2", api.init);
  find(library, "nvmlShutdown", api.shutdown);
  find(library, "nvmlDeviceGetCount_v2", api.device_get_count);
  find(library, "nvmlDeviceGetHandleByIndex_v2", api.device_get_handle);
  find_figures(library, api);
  find_processes(library, api);
  if (api.init == nullptr || api.shutdown == nullptr || api.device_get_count == nullptr ||
      api.device_get_handle == nullptr) {
    return fail(Code::kUnsupported,
                "expected NVIDIA's management library as {}, found a library without nvmlInit_v2 "
                "and what belongs to it: install NVIDIA's driver anew",
                path);
  }
  return api;
}

std::string NvmlApi::name_of(NvmlReturn result) const {
  const char* const name = error_string == nullptr ? nullptr : error_string(result);
  return fmt::format("{} ({})", name == nullptr ? "error" : name, static_cast<int>(result));
}

}  // namespace vram::gpu::nvml
