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

DeviceMemory without_impossible(DeviceMemory memory) {
  memory.total_bytes = at_most(memory.total_bytes, kMaxBytes);
  if (memory.total_bytes.value_or(0) == 0) return {};
  memory.used_bytes = at_most(memory.used_bytes, *memory.total_bytes);
  memory.free_bytes = at_most(memory.free_bytes, *memory.total_bytes);
  memory.reserved_bytes = at_most(memory.reserved_bytes, *memory.total_bytes);
  return memory;
}

// The headers say that used includes reserved; the drivers seen so far leave it out. What adds up
// decides.
DeviceMemory known_memory(const MemoryV2& read) {
  DeviceMemory memory =
      without_impossible({read.total_bytes, read.used_bytes, read.free_bytes, read.reserved_bytes});
  if (!memory.used_bytes || !memory.free_bytes || !memory.reserved_bytes) return memory;
  const bool is_reserved_in_used = read.used_bytes >= read.reserved_bytes &&
                                   read.used_bytes + read.free_bytes >= read.total_bytes;
  if (is_reserved_in_used) memory.used_bytes = read.used_bytes - read.reserved_bytes;
  return memory;
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

DeviceMemory known_memory(const MemoryV1& read) {
  return without_impossible({read.total_bytes, read.used_bytes, read.free_bytes, std::nullopt});
}

NvmlReturn query_memory(const NvmlApi& api, nvmlDevice device, DeviceMemory& memory) {
  NvmlReturn answer = kFunctionNotFound;
  if (api.device_get_memory_v2 != nullptr) {
    MemoryV2 read{};
    read.version = kMemoryV2Version;
    answer = api.device_get_memory_v2(device, &read);
    if (answer == kSuccess) memory = known_memory(read);
  }
  if (is_of_other_version(answer) && api.device_get_memory_v1 != nullptr) {
    MemoryV1 read{};
    answer = api.device_get_memory_v1(device, &read);
    if (answer == kSuccess) memory = known_memory(read);
  }
  return answer;
}

namespace {

std::optional<uint64_t> if_not_negative(int64_t value) {
  return value < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(value));
}

}  // namespace

FieldValue field(Field number, uint32_t scope) {
  FieldValue value{};
  value.field = number;
  value.scope = scope;
  value.result = kNotSupported;
  return value;
}

void query_fields(const NvmlApi& api, nvmlDevice device, std::span<FieldValue> values) {
  const NvmlReturn answer =
      api.device_get_fields == nullptr
          ? kFunctionNotFound
          : api.device_get_fields(device, static_cast<int>(values.size()), values.data());
  if (answer == kSuccess) return;
  for (FieldValue& value : values) value.result = answer;
}

std::optional<uint64_t> known_value(const FieldValue& value) {
  if (value.result != kSuccess) return std::nullopt;
  switch (value.type) {
    case kTypeUnsigned:
      if (value.value.as_u32 == UINT32_MAX) return std::nullopt;
      return value.value.as_u32;
    case kTypeUnsignedLong:
    case kTypeUnsignedLongLong:
      if (value.value.as_u64 == kNotAvailable) return std::nullopt;
      return value.value.as_u64;
    case kTypeLongLong:
      return if_not_negative(value.value.as_i64);
    case kTypeInt:
      return if_not_negative(value.value.as_i32);
    case kTypeUnsignedShort:
      return value.value.as_u16;
    default:  // a fraction, or a type that came later
      return std::nullopt;
  }
}

bool is_narrow(const FieldValue& value) {
  return value.result == kSuccess && (value.type == kTypeUnsigned || value.type == kTypeInt ||
                                      value.type == kTypeUnsignedShort);
}

std::optional<uint64_t> known_counter(const FieldValue& value) {
  return is_narrow(value) ? std::nullopt : known_value(value);
}

}  // namespace vram::gpu::nvml
