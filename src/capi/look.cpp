// The functions of look.h about devices and processes: telemetry as plain C structs.
#include "capi/last_error.hpp"
#include "gpu/nvml/nvml.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <vram/look.h>

struct vram_look {
  vram::gpu::nvml::Nvml nvml;
  pid_t owner;  // a fork of it has the library's state, but none of its connections
  [[nodiscard]] bool is_forked() const { return owner != getpid(); }
};

namespace {

using vram::capi::last_error;
using vram::gpu::DeviceIdentity;
using vram::gpu::DeviceProcess;
using vram::gpu::DeviceSample;
using vram::gpu::nvml::Nvml;

template <size_t capacity>
void write_text(char (&out)[capacity], const std::optional<std::string>& text) {
  (void)std::snprintf(out, capacity, "%s", text ? text->c_str() : "");
}

uint64_t or_unknown(const std::optional<uint64_t>& figure) { return figure.value_or(VRAM_UNKNOWN); }

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
  return info;
}

vram_process_info as_c(const DeviceProcess& process) {
  const uint32_t kinds = (process.is_compute ? VRAM_PROCESS_COMPUTE : 0) |
                         (process.is_graphics ? VRAM_PROCESS_GRAPHICS : 0);
  return {process.pid, kinds, or_unknown(process.used_bytes),
          process.gpu_instance.value_or(UINT32_MAX), process.compute_instance.value_or(UINT32_MAX)};
}

}  // namespace

extern "C" {

vram_status vram_look_open(const char* library, vram_look** look) {
  last_error().clear();
  if (look == nullptr) {
    last_error() = "expected a place for the vram_look, found NULL";
    return VRAM_INVALID_VALUE;
  }
  auto nvml = Nvml::open(library == nullptr ? Nvml::library() : library);
  if (!nvml) {
    last_error() = nvml.error().message;
    return nvml.error().code == vram::Code::kNotFound ? VRAM_NO_DRIVER : VRAM_NOT_SUPPORTED;
  }
  *look = std::make_unique<vram_look>(vram_look{*std::move(nvml), getpid()}).release();
  return VRAM_OK;
}

vram_status vram_look_close(vram_look* look) {
  if (look == nullptr) return VRAM_INVALID_VALUE;
  if (look->is_forked()) return VRAM_FORKED;
  const std::unique_ptr<vram_look> closed(look);
  return VRAM_OK;
}

uint32_t vram_look_device_count(vram_look* look) {
  return look == nullptr || look->is_forked() ? 0 : look->nvml.device_count().value_or(0);
}

vram_status vram_look_device(vram_look* look, uint32_t index, vram_device_info* info,
                             vram_process_info* processes, size_t* capacity) {
  if (look == nullptr || info == nullptr) return VRAM_INVALID_VALUE;
  if (look->is_forked()) return VRAM_FORKED;
  if (info->struct_bytes != sizeof(vram_device_info)) return VRAM_INVALID_VALUE;
  const DeviceSample sample = look->nvml.sample(index);
  *info = as_c(look->nvml.identity(index), sample);
  if (capacity == nullptr) return VRAM_OK;
  if (processes == nullptr) *capacity = 0;
  *capacity = std::min(*capacity, sample.processes ? sample.processes->size() : 0);
  for (size_t i = 0; i < *capacity; ++i) processes[i] = as_c((*sample.processes)[i]);
  return VRAM_OK;
}

}  // extern "C"
