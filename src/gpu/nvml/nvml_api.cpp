#include "gpu/nvml/nvml_api.hpp"

#include <dlfcn.h>

namespace vram::gpu::nvml {
namespace {

void find_identity(void* library, NvmlApi& api) {
  find(library, "nvmlErrorString", api.error_string);
  find(library, "nvmlSystemGetDriverVersion", api.system_get_driver);
  find(library, "nvmlDeviceGetName", api.device_get_name);
  find(library, "nvmlDeviceGetUUID", api.device_get_uuid);
}

void find_figures(void* library, NvmlApi& api) {
  find(library, "nvmlDeviceGetMemoryInfo", api.device_get_memory_v1);
  find(library, "nvmlDeviceGetMemoryInfo_v2", api.device_get_memory_v2);
  find(library, "nvmlDeviceGetUtilizationRates", api.device_get_utilization);
  find(library, "nvmlDeviceGetTemperature", api.device_get_temperature);
  find(library, "nvmlDeviceGetTemperatureV", api.device_get_temperature_v);
  find(library, "nvmlDeviceGetClockInfo", api.device_get_clock);
  find(library, "nvmlDeviceGetPowerUsage", api.device_get_power);
  api.device_get_throttle_reasons = api.find_first<NvmlApi::Of<uint64_t*>>(
      {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  find(library, "nvmlDeviceGetFieldValues", api.device_get_fields);
}

void find_gpm(void* library, NvmlApi& api) {
  find(library, "nvmlGpmQueryDeviceSupport", api.gpm_query_support);
  find(library, "nvmlGpmSampleAlloc", api.gpm_sample_alloc);
  find(library, "nvmlGpmSampleFree", api.gpm_sample_free);
  find(library, "nvmlGpmSampleGet", api.gpm_sample_get);
  find(library, "nvmlGpmMetricsGet", api.gpm_metrics_get);
}

void find_health(void* library, NvmlApi& api) {
  find(library, "nvmlDeviceGetRemappedRows", api.device_get_remapped_rows);
  find(library, "nvmlDeviceGetRetiredPages", api.device_get_retired_pages_v1);
  find(library, "nvmlDeviceGetRetiredPages_v2", api.device_get_retired_pages_v2);
  find(library, "nvmlDeviceGetMigMode", api.device_get_mig_mode);
  find(library, "nvmlDeviceGetMaxMigDeviceCount", api.device_get_max_mig_count);
  find(library, "nvmlDeviceGetMigDeviceHandleByIndex", api.device_get_mig_handle);
  find(library, "nvmlDeviceGetGpuInstanceId", api.device_get_gpu_instance);
  find(library, "nvmlDeviceGetComputeInstanceId", api.device_get_compute_instance);
}

void find_events(void* library, NvmlApi& api) {
  find(library, "nvmlEventSetCreate", api.event_set_create);
  find(library, "nvmlEventSetFree", api.event_set_free);
  find(library, "nvmlDeviceRegisterEvents", api.device_register_events);
  find(library, "nvmlEventSetWait", api.event_set_wait_v1);
  find(library, "nvmlEventSetWait_v2", api.event_set_wait_v2);
}

void find_lists(void* library, const std::string& kind, NvmlApi::Lists& lists) {
  const std::string name = "nvmlDeviceGet" + kind + "RunningProcesses";
  find(library, name.c_str(), lists.v1);
  find(library, (name + "_v2").c_str(), lists.v2);
  find(library, (name + "_v3").c_str(), lists.v3);
}

void find_processes(void* library, NvmlApi& api) {
  find_lists(library, "Compute", api.compute);
  find_lists(library, "Graphics", api.graphics);
  find_lists(library, "MPSCompute", api.mps);
  find(library, "nvmlDeviceGetProcessUtilization", api.device_get_process_busy);
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
  api.library = library;
  find(library, "nvmlInit_v2", api.init);
  find(library, "nvmlShutdown", api.shutdown);
  find(library, "nvmlDeviceGetCount_v2", api.device_get_count);
  find(library, "nvmlDeviceGetHandleByIndex_v2", api.device_get_handle);
  find_identity(library, api);
  find_figures(library, api);
  find_gpm(library, api);
  find_health(library, api);
  find_processes(library, api);
  find_events(library, api);
  if (api.init == nullptr || api.shutdown == nullptr || api.device_get_count == nullptr ||
      api.device_get_handle == nullptr) {
    return fail(Code::kUnsupported,
                "expected NVIDIA's management library as {}, found a library without nvmlInit_v2 "
                "and related functions: reinstall NVIDIA's driver",
                path);
  }
  return api;
}

std::string NvmlApi::name_of(NvmlReturn result) const {
  const char* const name = error_string == nullptr ? nullptr : error_string(result);
  return fmt::format("{} ({})", name == nullptr ? "error" : name, static_cast<int>(result));
}

}  // namespace vram::gpu::nvml
