// NvmlApi: the functions of libnvidia-ml.so.1 as a table, loaded at run time. A function that the
// driver lacks is null, and affects only its own figure. Functions that only one seldom read figure
// needs are not in the table: their reader finds them by name. Nvml uses it.
//
// Once loaded, the library stays open until the process ends. The table is immutable; it may be
// loaded and called from any thread.
#pragma once

#include "base/result.hpp"
#include "gpu/nvml/nvml_types.hpp"
#include "gpu/symbols.hpp"

#include <initializer_list>
#include <string>

namespace vram::gpu::nvml {

struct NvmlApi {
  void* library = nullptr;  // its handle

  using ListProcesses = NvmlReturn(nvmlDevice device, unsigned* count, void* entries);

  // Functions of the same shape; their results are the last arguments.
  template <typename... Values>
  using Of = NvmlReturn(nvmlDevice device, Values... values);
  using TextOf = Of<char*, unsigned>;
  using UnsignedOf = Of<unsigned*>;

  NvmlReturn (*init)() = nullptr;
  NvmlReturn (*shutdown)() = nullptr;
  NvmlReturn (*device_get_count)(unsigned* count) = nullptr;
  NvmlReturn (*device_get_handle)(unsigned index, nvmlDevice* device) = nullptr;

  // From here on each may be null.
  const char* (*error_string)(NvmlReturn result) = nullptr;

  // Identity.
  NvmlReturn (*system_get_driver)(char* version, unsigned capacity) = nullptr;
  TextOf* device_get_name = nullptr;
  TextOf* device_get_uuid = nullptr;

  // Activity.
  Of<MemoryV1*>* device_get_memory_v1 = nullptr;
  Of<MemoryV2*>* device_get_memory_v2 = nullptr;
  Of<Utilization*>* device_get_utilization = nullptr;
  Of<unsigned, unsigned*>* device_get_temperature = nullptr;
  Of<TemperatureV1*>* device_get_temperature_v = nullptr;
  Of<unsigned, unsigned*>* device_get_clock = nullptr;
  UnsignedOf* device_get_power = nullptr;
  Of<uint64_t*>* device_get_throttle_reasons = nullptr;
  Of<int, FieldValue*>* device_get_fields = nullptr;

  // Performance counters (Hopper and newer).
  Of<GpmSupport*>* gpm_query_support = nullptr;
  NvmlReturn (*gpm_sample_alloc)(nvmlGpmSample* sample) = nullptr;
  NvmlReturn (*gpm_sample_free)(nvmlGpmSample sample) = nullptr;
  Of<nvmlGpmSample>* gpm_sample_get = nullptr;
  NvmlReturn (*gpm_metrics_get)(GpmMetrics* metrics) = nullptr;

  // How it is doing.
  Of<unsigned*, unsigned*, unsigned*, unsigned*>* device_get_remapped_rows = nullptr;
  Of<unsigned, unsigned*, uint64_t*>* device_get_retired_pages_v1 = nullptr;
  Of<unsigned, unsigned*, uint64_t*, uint64_t*>* device_get_retired_pages_v2 = nullptr;

  // MIG.
  Of<unsigned*, unsigned*>* device_get_mig_mode = nullptr;
  UnsignedOf* device_get_max_mig_count = nullptr;
  Of<unsigned, nvmlDevice*>* device_get_mig_handle = nullptr;
  UnsignedOf* device_get_gpu_instance = nullptr;
  UnsignedOf* device_get_compute_instance = nullptr;

  // Who uses it.
  struct Lists {  // by the version of the function's name
    ListProcesses* v1 = nullptr;
    ListProcesses* v2 = nullptr;
    ListProcesses* v3 = nullptr;
  };
  Lists compute;
  Lists graphics;
  Lists mps;
  bool is_v3_of_535 = false;  // what _v3 writes is ProcessV3Of535
  Of<ProcessBusy*, unsigned*, uint64_t>* device_get_process_busy = nullptr;

  // What happens to it.
  NvmlReturn (*event_set_create)(nvmlEventSet* set) = nullptr;
  NvmlReturn (*event_set_free)(nvmlEventSet set) = nullptr;
  Of<uint64_t, nvmlEventSet>* device_register_events = nullptr;
  NvmlReturn (*event_set_wait_v1)(nvmlEventSet set, EventV1* event, unsigned timeout_ms) = nullptr;
  NvmlReturn (*event_set_wait_v2)(nvmlEventSet set, EventV2* event, unsigned timeout_ms) = nullptr;

  // kNotFound: no such library. kUnsupported: a library that is not NVML.
  [[nodiscard]] static Result<NvmlApi> load(const std::string& path);

  // Returns the first of these functions that the library has. For functions that one seldom read
  // figure needs: they have no member above.
  template <typename Function>
  [[nodiscard]] Function* find_first(std::initializer_list<const char*> names) const {
    Function* function = nullptr;
    for (const char* const name : names) {
      if (function == nullptr) function = symbol<Function>(library, name);
    }
    return function;
  }

  // "GPU is lost (15)".
  [[nodiscard]] std::string name_of(NvmlReturn result) const;
};

}  // namespace vram::gpu::nvml
