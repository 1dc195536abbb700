// NvmlApi: the functions of libnvidia-ml.so.1 as a table, loaded at run time. A function that the
// driver lacks is null, and affects only its own figure. Functions that only one seldom read figure
// needs are not in the table: their reader finds them by name. Below it, what asks the library for
// single figures: unsupported, failed or impossible ones are unknown. Nvml uses both.
//
// Once loaded, the library stays open until the process ends. The table is immutable; it may be
// loaded and called from any thread.
#pragma once

#include "base/result.hpp"
#include "gpu/nvml/nvml_types.hpp"
#include "gpu/symbols.hpp"
#include "gpu/telemetry.hpp"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
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

// The driver does not have this function or struct; an older one may do. Every other answer would
// be the older one's too.
[[nodiscard]] inline bool is_of_other_version(NvmlReturn answer) {
  return answer == kFunctionNotFound || answer == kArgumentVersionMismatch || answer == kDeprecated;
}

// Returns the value that a function writes to its last argument.
template <typename Value, typename Function, typename... Args>
[[nodiscard]] std::optional<Value> query(Function* function, Args... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != kSuccess) return std::nullopt;
  return value;
}

// The same of the first of these functions that the library has.
template <typename Value, typename... Args>
[[nodiscard]] std::optional<Value> query_first(const NvmlApi& api,
                                               std::initializer_list<const char*> names,
                                               nvmlDevice device, Args... arguments) {
  return query<Value>(api.find_first<NvmlApi::Of<Args..., Value*>>(names), device, arguments...);
}

template <typename Value>
[[nodiscard]] std::optional<Value> at_most(std::optional<Value> value, Value limit) {
  return value && *value <= limit ? value : std::nullopt;
}

// Instances of a device that is not divided have no number.
[[nodiscard]] inline std::optional<uint32_t> known_instance(uint32_t instance) {
  return instance == kNoInstance ? std::nullopt : std::optional(instance);
}

// Returns a text that a function writes; its termination is not guaranteed.
template <typename Function, typename... Args>
[[nodiscard]] std::optional<std::string> query_text(Function* function, Args... arguments) {
  std::array<char, kTextBytes + 1> text{};
  if (function == nullptr || function(arguments..., text.data(), kTextBytes) != kSuccess)
    return std::nullopt;
  return std::string(text.data());
}

// More than any device has; the library uses larger values for "not available".
inline constexpr uint64_t kMaxBytes = uint64_t{1} << 50U;

// More than any GPU draws, or may draw.
inline constexpr uint32_t kMaxMilliwatts = 100'000'000;

// More than any bus or link of a device carries.
inline constexpr uint64_t kMaxBytesPerSecond = 10'000'000'000'000;

// If the total is impossible, everything is unknown: the other values cannot be checked without it.
[[nodiscard]] DeviceMemory known_memory(const MemoryV1& read);

// Reads memory with the newest function that works. Returns its result, or that of the oldest.
NvmlReturn query_memory(const NvmlApi& api, nvmlDevice device, DeviceMemory& memory);

// Figures that NVML has by number: many in one call, each with its own answer and type. Fills in
// the values; if the call itself fails, each gets that result.
void query_fields(const NvmlApi& api, nvmlDevice device, std::span<FieldValue> values);

[[nodiscard]] FieldValue field(Field number, uint32_t scope = 0);

// Returns an unsigned integer; nothing for an error, a negative value, or "not available".
[[nodiscard]] std::optional<uint64_t> known_value(const FieldValue& value);

// Returns a 64-bit counter. Narrower ones overflow many times a second on a busy bus, so that
// neither the value nor its difference is meaningful.
[[nodiscard]] std::optional<uint64_t> known_counter(const FieldValue& value);
[[nodiscard]] bool is_narrow(const FieldValue& value);

}  // namespace vram::gpu::nvml
