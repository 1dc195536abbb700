// The functions of look.h about devices and processes: telemetry as plain C structs.
#include "capi/last_error.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/nvml/nvml.hpp"
#include "gpu/rocm/rocm_extras.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <vram/look.h>

struct vram_look {
  vram::gpu::drm::Drm drm;
  std::optional<vram::gpu::nvml::Nvml> nvml;
  uint32_t nvml_count;  // when it was opened, so that a failure later does not change the numbers
  std::string missing;  // why NVIDIA's devices are; "": nothing is known to be
  pid_t owner;          // a fork of it has the library's state, but none of its connections

  [[nodiscard]] bool is_forked() const { return owner != getpid(); }
  [[nodiscard]] uint32_t drm_count() const { return drm.device_count().value_or(0); }
};

namespace {

using vram::capi::last_error;
using vram::gpu::DeviceIdentity;
using vram::gpu::DeviceProcess;
using vram::gpu::DeviceSample;
using vram::gpu::Telemetry;
using vram::gpu::Vendor;
using vram::gpu::nvml::Nvml;

template <size_t capacity>
void write_text(char (&out)[capacity], const std::optional<std::string>& text) {
  (void)std::snprintf(out, capacity, "%s", text ? text->c_str() : "");
}

uint64_t or_unknown(const std::optional<uint64_t>& figure) { return figure.value_or(VRAM_UNKNOWN); }

vram_vendor as_c(Vendor vendor) {
  switch (vendor) {
    case Vendor::kAmd:
      return VRAM_VENDOR_AMD;
    case Vendor::kIntel:
      return VRAM_VENDOR_INTEL;
    default:
      return VRAM_VENDOR_NVIDIA;
  }
}

vram_device_info as_c(const DeviceIdentity& identity, const DeviceSample& sample) {
  vram_device_info info{};
  info.struct_bytes = sizeof info;
  info.total_bytes = or_unknown(sample.memory.total_bytes);
  info.used_bytes = or_unknown(sample.memory.used_bytes);
  info.free_bytes = or_unknown(sample.memory.free_bytes);
  info.reserved_bytes = or_unknown(sample.memory.reserved_bytes);
  info.busy_percent = or_unknown(sample.busy_percent);
  info.memory_busy_percent = or_unknown(sample.memory_busy_percent);
  info.process_count = sample.processes ? sample.processes->size() : VRAM_UNKNOWN;
  write_text(info.name, identity.name);
  write_text(info.uuid, identity.uuid);
  write_text(info.trouble, sample.trouble);
  write_text(info.pci_id, identity.pci_id);
  info.vendor = as_c(identity.vendor);
  info.is_asleep = sample.is_asleep ? 1 : 0;
  info.host_total_bytes = or_unknown(sample.host_memory.total_bytes);
  info.host_used_bytes = or_unknown(sample.host_memory.used_bytes);
  return info;
}

vram_process_info as_c(const DeviceProcess& process) {
  const uint32_t kinds = (process.is_compute ? VRAM_PROCESS_COMPUTE : 0) |
                         (process.is_graphics ? VRAM_PROCESS_GRAPHICS : 0);
  return {.pid = process.pid,
          .kinds = kinds,
          .used_bytes = or_unknown(process.used_bytes),
          .host_bytes = or_unknown(process.host_bytes),
          .gpu_instance = process.gpu_instance.value_or(VRAM_NO_INSTANCE),
          .compute_instance = process.compute_instance.value_or(VRAM_NO_INSTANCE)};
}

}  // namespace

extern "C" {

vram_status vram_look_open(const char* library, vram_look** look) {
  last_error().clear();
  if (look == nullptr) {
    last_error() = "expected a place for the vram_look, found NULL";
    return VRAM_INVALID_VALUE;
  }
  auto opened = std::make_unique<vram_look>(vram_look{
      .drm =
          vram::gpu::drm::Drm::open(vram::gpu::drm::machine_roots(), vram::gpu::rocm::open_extras),
      .nvml = {},
      .nvml_count = 0,
      .missing = {},
      .owner = getpid()});
  auto nvml = Nvml::open(library == nullptr ? Nvml::library() : library);
  const bool is_absent = !nvml && nvml.error().code == vram::Code::kNotFound;
  if (nvml) {
    const auto count = nvml->device_count();
    if (!count) opened->missing = count.error().message;
    opened->nvml_count = count.value_or(0);
    opened->nvml.emplace(*std::move(nvml));
  } else if (opened->drm_count() == 0) {
    last_error() = nvml.error().message;
    return is_absent ? VRAM_NO_DRIVER : VRAM_NOT_SUPPORTED;
  } else if (!is_absent) {
    opened->missing = nvml.error().message;
  }
  *look = opened.release();
  return VRAM_OK;
}

vram_status vram_look_close(vram_look* look) {
  if (look == nullptr) return VRAM_INVALID_VALUE;
  if (look->is_forked()) return VRAM_FORKED;
  const std::unique_ptr<vram_look> closed(look);
  return VRAM_OK;
}

size_t vram_look_missing(vram_look* look, char* text, size_t capacity) {
  if (look == nullptr || look->is_forked()) return 0;
  if (text != nullptr) (void)std::snprintf(text, capacity, "%s", look->missing.c_str());
  return look->missing.size();
}

uint32_t vram_look_device_count(vram_look* look) {
  return look == nullptr || look->is_forked() ? 0 : look->nvml_count + look->drm_count();
}

vram_status vram_look_device(vram_look* look, uint32_t index, vram_device_info* info,
                             vram_process_info* processes, size_t* capacity) {
  if (look == nullptr || info == nullptr) return VRAM_INVALID_VALUE;
  if (look->is_forked()) return VRAM_FORKED;
  if (info->struct_bytes != sizeof(vram_device_info)) return VRAM_INVALID_VALUE;
  const bool is_nvml = look->nvml && (index < look->nvml_count || look->drm_count() == 0);
  const Telemetry& source = is_nvml ? static_cast<Telemetry&>(*look->nvml) : look->drm;
  const uint32_t place = is_nvml ? index : index - look->nvml_count;
  const DeviceSample sample = source.sample(place);
  *info = as_c(source.identity(place), sample);
  if (capacity == nullptr) return VRAM_OK;
  if (processes == nullptr) *capacity = 0;
  *capacity = std::min(*capacity, sample.processes ? sample.processes->size() : 0);
  for (size_t i = 0; i < *capacity; ++i) processes[i] = as_c((*sample.processes)[i]);
  return VRAM_OK;
}

}  // extern "C"
