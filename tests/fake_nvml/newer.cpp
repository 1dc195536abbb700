// The functions about one device that the first generation lacks: see fake_nvml.cpp.
#include "call.hpp"

#if FAKE_NVML_GENERATION >= 2

namespace {

using namespace vram::gpu::nvml;  // NOLINT(google-build-using-namespace): the library speaks it
using vram::fake_nvml::begin;
using vram::fake_nvml::Call;
using vram::fake_nvml::odd;
using vram::fake_nvml::write;

void write_pcie(const Call& call, FieldValue& value, uint64_t& read) {
  value.result = write(call, "pcie", value.field == kFieldPcieSentBytes ? 0 : 1, &read);
  const uint64_t* const bits = call.figure("pcie-bits");
  if (bits == nullptr || *bits != 32) return;
  value.type = kTypeUnsigned;
  read &= UINT32_MAX;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NVML's own names
extern "C" {

NvmlReturn nvmlDeviceGetPciInfo_v3(nvmlDevice device, PciInfo* pci) {
  return vram::fake_nvml::write_pci(begin("nvmlDeviceGetPciInfo_v3", device), *pci);
}

NvmlReturn nvmlDeviceGetCudaComputeCapability(nvmlDevice device, int* major, int* minor) {
  const Call call = begin("nvmlDeviceGetCudaComputeCapability", device);
  (void)write(call, "compute-capability", 0, major);
  return write(call, "compute-capability", 1, minor);
}

NvmlReturn nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice device, uint64_t* reasons) {
  return write(begin("nvmlDeviceGetCurrentClocksEventReasons", device), "throttle", 0, reasons);
}

NvmlReturn nvmlDeviceGetMemoryInfo_v2(nvmlDevice device, MemoryV2* memory) {
  const Call call = begin("nvmlDeviceGetMemoryInfo_v2", device);
  vram::fake_nvml::Sizes sizes;
  if (memory->version != kMemoryV2Version) return kArgumentVersionMismatch;
  if (!call.is_fine()) return call.answer;
  if (!has_sizes(call, sizes)) return kNotSupported;
  const uint64_t both = sizes.used + sizes.reserved;
  *memory = {kMemoryV2Version, odd(sizes.total), odd(sizes.reserved), odd(sizes.total - both),
             odd(sizes.is_reserved_in_used ? both : sizes.used)};
  return kSuccess;
}

NvmlReturn nvmlDeviceGetRemappedRows(nvmlDevice device, unsigned* corrected, unsigned* uncorrected,
                                     unsigned* is_pending, unsigned* has_failed) {
  const Call call = begin("nvmlDeviceGetRemappedRows", device);
  (void)write(call, "rows", 1, uncorrected);
  (void)write(call, "rows", 2, is_pending);
  (void)write(call, "rows", 3, has_failed);
  return write(call, "rows", 0, corrected);
}

NvmlReturn nvmlDeviceGetRetiredPages_v2(nvmlDevice device, uint32_t cause, unsigned* count,
                                        uint64_t* addresses, uint64_t* /*times*/) {
  return write_retired_pages(begin("nvmlDeviceGetRetiredPages_v2", device), cause, *count,
                             addresses);
}

// Of the types that drivers give each.
NvmlReturn nvmlDeviceGetFieldValues(nvmlDevice device, int count, FieldValue* values) {
  const Call call = begin("nvmlDeviceGetFieldValues", device);
  if (!call.is_fine()) return call.answer;
  for (FieldValue* value = values; value < values + count; ++value) {
    uint64_t read = 0;
    value->type = kTypeUnsignedLongLong;
    value->result = kNotSupported;
    if (value->scope == kAllLinks && value->field == kFieldNvlinkSentKib)
      value->result = write(call, "nvlink", 0, &read);
    if (value->scope == kAllLinks && value->field == kFieldNvlinkReceivedKib)
      value->result = write(call, "nvlink", 1, &read);
    if (value->field == kFieldPcieSentBytes || value->field == kFieldPcieReceivedBytes)
      write_pcie(call, *value, read);
    if (value->result != kSuccess) value->type = kTypeUnsigned;
    if (value->field == kFieldMemoryCelsius)
      value->result = write(call, "memory-celsius", 0, &read);
    if (value->field == kFieldPowerNow) value->result = write(call, "milliwatts", 0, &read);
    if (value->field == kFieldRecoveryAction) value->result = write(call, "recovery", 0, &read);
    value->value.as_u64 = read;
    value->type = static_cast<int32_t>(odd(static_cast<uint32_t>(value->type)));
  }
  return kSuccess;
}

#if FAKE_NVML_GENERATION == 3
NvmlReturn nvmlDeviceGetTemperatureV(nvmlDevice device, TemperatureV1* temperature) {
  const Call call = begin("nvmlDeviceGetTemperatureV", device);
  if (temperature->version != kTemperatureV1Version) return kArgumentVersionMismatch;
  uint32_t celsius = 0;
  const NvmlReturn answer = write(call, "celsius", 0, &celsius);
  temperature->celsius = static_cast<int32_t>(celsius);
  return answer;
}
#endif

NvmlReturn nvmlDeviceGetMigMode(nvmlDevice device, unsigned* now, unsigned* after_reset) {
  const Call call = begin("nvmlDeviceGetMigMode", device);
  (void)write(call, "mig", 0, after_reset);
  return write(call, "mig", 0, now);
}

NvmlReturn nvmlDeviceGetMaxMigDeviceCount(nvmlDevice device, unsigned* count) {
  const Call call = begin("nvmlDeviceGetMaxMigDeviceCount", device);
  if (call.is_fine()) *count = odd(7U);
  return call.answer;
}

// The numbers have a hole: of parts 0, 1, 2, … the numbers are 0, 2, 3, …
NvmlReturn nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice device, unsigned index,
                                               nvmlDevice* part) {
  const Call call = begin("nvmlDeviceGetMigDeviceHandleByIndex", device);
  if (!call.is_fine()) return call.answer;
  const unsigned number = index == 0 ? 0 : index - 1;
  if (index == 1 || number >= call.device->parts.size()) return kNotFound;
  *part = vram::fake_nvml::handle_of(call.index, number + 1);
  return kSuccess;
}

NvmlReturn nvmlDeviceGetGpuInstanceId(nvmlDevice device, unsigned* number) {
  const Call call = begin("nvmlDeviceGetGpuInstanceId", device);
  if (call.is_fine() && call.part == nullptr) return kInvalidArgument;
  if (call.is_fine()) *number = call.part->gpu_instance;
  return call.answer;
}

NvmlReturn nvmlDeviceGetComputeInstanceId(nvmlDevice device, unsigned* number) {
  const Call call = begin("nvmlDeviceGetComputeInstanceId", device);
  if (call.is_fine() && call.part == nullptr) return kInvalidArgument;
  if (call.is_fine()) *number = call.part->compute_instance;
  return call.answer;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

#endif
