// libnvidia-ml.so.1, the fake: a machine as one generation of NVIDIA's drivers would show it.
// FAKE_NVML_GENERATION chooses which functions there are and what structs they write:
//   1: memory v1, processes v1, neither fields nor MIG     2: memory v2, processes v2
//   535: _v3 lists of 32 bytes                             3: _v3 lists of 24 bytes
//
// README.md says what the environment and the scenario file have to say. Here are the functions
// about one device, newer.cpp has those that the first generation lacks; lists.cpp has its
// processes, events.cpp what happens to it.
#include "call.hpp"
#include "gpu/nvml/nvml_types.hpp"

#include <array>
#include <cstdio>
#include <cstring>

namespace {

using namespace vram::gpu::nvml;  // NOLINT(google-build-using-namespace): the library speaks it
using vram::fake_nvml::begin;
using vram::fake_nvml::Call;
using vram::fake_nvml::has_sizes;
using vram::fake_nvml::odd;
using vram::fake_nvml::Sizes;
using vram::fake_nvml::write;

// With chaos now and then without an end.
NvmlReturn write_text(const Call& call, const std::string& text, char* out, unsigned capacity) {
  if (!call.is_fine()) return call.answer;
  (void)std::snprintf(out, capacity, "%s", text.c_str());
  if (vram::fake_nvml::is_odd(4)) std::memset(out, 'x', capacity);
  return kSuccess;
}

// What vram does not call and other monitors insist on (bench/monitors.py runs them): none of these
// devices supports it.
NvmlReturn not_supported(const char* name, nvmlDevice device) {
  const auto call = begin(name, device);
  return call.is_fine() ? kNotSupported : call.answer;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NVML's own names
extern "C" {

NvmlReturn nvmlInit_v2() {
  const Call call = begin("nvmlInit_v2");
  if (call.is_fine()) vram::fake_nvml::count_open(1);
  return call.answer;
}

// These two are for the monitors that vram is measured beside: NVIDIA's own Python binding and
// gpustat call them.
NvmlReturn nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }
NvmlReturn nvmlDeviceGetIndex(nvmlDevice device, unsigned* index) {
  const Call call = begin("nvmlDeviceGetIndex", device);
  if (call.is_fine()) *index = call.index;
  return call.answer;
}

NvmlReturn nvmlShutdown() {
  (void)begin("nvmlShutdown");
  vram::fake_nvml::count_open(-1);
  return kSuccess;
}

const char* nvmlErrorString(NvmlReturn result) {
  if (vram::fake_nvml::is_odd(4)) return nullptr;
  return result == kGpuIsLost ? "GPU is lost" : "Something Else";
}

NvmlReturn nvmlSystemGetDriverVersion(char* version, unsigned capacity) {
  const Call call = begin("nvmlSystemGetDriverVersion");
  return write_text(call, call.machine->version, version, capacity);
}

NvmlReturn nvmlDeviceGetCount_v2(unsigned* count) {
  const Call call = begin("nvmlDeviceGetCount_v2");
  *count = odd(static_cast<unsigned>(call.machine->devices.size()));
  return call.answer;
}

NvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice* device) {
  *device = vram::fake_nvml::handle_of(index);
  if (index >= vram::fake_nvml::machine_now()->devices.size()) return kInvalidArgument;
  const bool has_second =
      vram::fake_nvml::environment("FAKE_NVML_FAIL").find("second=") != std::string::npos;
  return begin(index == 1 && has_second ? "second" : "nvmlDeviceGetHandleByIndex_v2", *device)
      .answer;
}

NvmlReturn nvmlDeviceGetName(nvmlDevice device, char* name, unsigned capacity) {
  const Call call = begin("nvmlDeviceGetName", device);
  if (!call.is_fine()) return call.answer;
  std::string text = call.device->texts.at("name");
  if (call.part != nullptr) text += " MIG " + call.part->profile;
  return write_text(call, text, name, capacity);
}

NvmlReturn nvmlDeviceGetUUID(nvmlDevice device, char* uuid, unsigned capacity) {
  const Call call = begin("nvmlDeviceGetUUID", device);
  if (!call.is_fine()) return call.answer;
  const std::string& whole = call.device->texts.at("uuid");
  if (call.part == nullptr) return write_text(call, whole, uuid, capacity);
  return write_text(call,
                    "MIG-" + whole + "/" + std::to_string(call.part->gpu_instance) + "/" +
                        std::to_string(call.part->compute_instance),
                    uuid, capacity);
}

NvmlReturn nvmlDeviceGetUtilizationRates(nvmlDevice device, Utilization* utilization) {
  const Call call = begin("nvmlDeviceGetUtilizationRates", device);
  (void)write(call, "utilization", 1, &utilization->memory_percent);
  return write(call, "utilization", 0, &utilization->gpu_percent);
}

NvmlReturn nvmlDeviceGetMemoryInfo(nvmlDevice device, MemoryV1* memory) {
  const Call call = begin("nvmlDeviceGetMemoryInfo", device);
  Sizes sizes;
  if (!call.is_fine()) return call.answer;
  if (!has_sizes(call, sizes)) return kNotSupported;
  const uint64_t used = sizes.used + sizes.reserved;
  *memory = {odd(sizes.total), odd(sizes.total - used), odd(used)};
  return kSuccess;
}

NvmlReturn nvmlDeviceGetTemperature(nvmlDevice device, unsigned /*sensor*/, unsigned* celsius) {
  return write(begin("nvmlDeviceGetTemperature", device), "celsius", 0, celsius);
}
NvmlReturn nvmlDeviceGetClockInfo(nvmlDevice device, unsigned clock, unsigned* mhz) {
  const bool is_memory = clock == kClockMemory;
  return write(begin("nvmlDeviceGetClockInfo", device), "clocks", is_memory ? 1 : 0, mhz);
}
NvmlReturn nvmlDeviceGetPowerUsage(nvmlDevice device, unsigned* milliwatts) {
  return write(begin("nvmlDeviceGetPowerUsage", device), "milliwatts", 0, milliwatts);
}
NvmlReturn nvmlDeviceGetEnforcedPowerLimit(nvmlDevice device, unsigned* milliwatts) {
  return write(begin("nvmlDeviceGetEnforcedPowerLimit", device), "power-limit", 0, milliwatts);
}
NvmlReturn nvmlDeviceGetComputeMode(nvmlDevice device, unsigned* mode) {
  return write(begin("nvmlDeviceGetComputeMode", device), "compute-mode", 0, mode);
}
NvmlReturn nvmlDeviceGetPersistenceMode(nvmlDevice device, unsigned* mode) {
  return write(begin("nvmlDeviceGetPersistenceMode", device), "persistence", 0, mode);
}
NvmlReturn nvmlDeviceGetTotalEccErrors(nvmlDevice device, unsigned kind, unsigned since,
                                       uint64_t* count) {
  return write(begin("nvmlDeviceGetTotalEccErrors", device), "ecc", size_t{2} * since + kind,
               count);
}
NvmlReturn nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice device, unsigned* is_pending) {
  return write(begin("nvmlDeviceGetRetiredPagesPendingStatus", device), "retired", 2, is_pending);
}
NvmlReturn nvmlDeviceGetBAR1MemoryInfo(nvmlDevice device, MemoryV1* memory) {
  const Call call = begin("nvmlDeviceGetBAR1MemoryInfo", device);
  (void)write(call, "bar1", 1, &memory->used_bytes);
  const NvmlReturn answer = write(call, "bar1", 0, &memory->total_bytes);
  memory->free_bytes = memory->total_bytes - memory->used_bytes;
  return answer;
}

// Blocks for as long as the true one: no program is to call it at each tick.
NvmlReturn nvmlDeviceGetPcieThroughput(nvmlDevice device, unsigned /*direction*/,
                                       unsigned* /*kib_per_second*/) {
  return begin("nvmlDeviceGetPcieThroughput", device).answer;
}

// What newer drivers have by other names: see newer.cpp.
#if FAKE_NVML_GENERATION == 1
NvmlReturn nvmlDeviceGetPciInfo(nvmlDevice device, PciInfo* pci) {
  return vram::fake_nvml::write_pci(begin("nvmlDeviceGetPciInfo", device), *pci);
}

NvmlReturn nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice device, uint64_t* reasons) {
  return write(begin("nvmlDeviceGetCurrentClocksThrottleReasons", device), "throttle", 0, reasons);
}

NvmlReturn nvmlDeviceGetRetiredPages(nvmlDevice device, uint32_t cause, unsigned* count,
                                     uint64_t* addresses) {
  return write_retired_pages(begin("nvmlDeviceGetRetiredPages", device), cause, *count, addresses);
}
#endif

NvmlReturn nvmlDeviceGetFanSpeed(nvmlDevice device, unsigned* /*percent*/) {
  return not_supported("nvmlDeviceGetFanSpeed", device);
}
NvmlReturn nvmlDeviceGetEncoderUtilization(nvmlDevice device, unsigned* /*percent*/,
                                           unsigned* /*period*/) {
  return not_supported("nvmlDeviceGetEncoderUtilization", device);
}
NvmlReturn nvmlDeviceGetDecoderUtilization(nvmlDevice device, unsigned* /*percent*/,
                                           unsigned* /*period*/) {
  return not_supported("nvmlDeviceGetDecoderUtilization", device);
}
NvmlReturn nvmlDeviceGetMaxClockInfo(nvmlDevice device, int /*kind*/, unsigned* /*mhz*/) {
  return not_supported("nvmlDeviceGetMaxClockInfo", device);
}
NvmlReturn nvmlDeviceGetTemperatureThreshold(nvmlDevice device, int /*kind*/,
                                             unsigned* /*celsius*/) {
  return not_supported("nvmlDeviceGetTemperatureThreshold", device);
}
NvmlReturn nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice device, unsigned* /*number*/) {
  return not_supported("nvmlDeviceGetCurrPcieLinkGeneration", device);
}
NvmlReturn nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice device, unsigned* /*lanes*/) {
  return not_supported("nvmlDeviceGetCurrPcieLinkWidth", device);
}
NvmlReturn nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice device, unsigned* /*number*/) {
  return not_supported("nvmlDeviceGetMaxPcieLinkGeneration", device);
}
NvmlReturn nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice device, unsigned* /*lanes*/) {
  return not_supported("nvmlDeviceGetMaxPcieLinkWidth", device);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
