#include "gpu/nvml/mig.hpp"

#include "gpu/nvml/query.hpp"

#include <algorithm>

namespace vram::gpu::nvml {
namespace {

constexpr unsigned kMaxParts = 64;  // devices have up to 7; a bound for what a driver may say

// "NVIDIA H200 MIG 1g.18gb" names the profile last.
std::optional<std::string> profile_in(const std::optional<std::string>& name) {
  constexpr std::string_view kMark = "MIG ";
  const size_t at = name ? name->rfind(kMark) : std::string::npos;
  if (at == std::string::npos || at + kMark.size() == name->size()) return std::nullopt;
  return name->substr(at + kMark.size());
}

DeviceMemory memory_of(const NvmlApi& api, nvmlDevice device, std::optional<uint64_t> limit) {
  DeviceMemory memory;
  (void)query_memory(api, device, memory);
  return limit && memory.total_bytes > limit ? DeviceMemory{} : memory;
}

}  // namespace

std::optional<bool> query_is_mig(const NvmlApi& api, nvmlDevice device) {
  unsigned now = 0;
  unsigned after_reset = 0;
  if (api.device_get_mig_mode == nullptr ||
      api.device_get_mig_mode(device, &now, &after_reset) != kSuccess || now > 1)
    return std::nullopt;
  return now == 1;
}

std::vector<MigHandle> query_mig_handles(const NvmlApi& api, nvmlDevice device) {
  std::vector<MigHandle> handles;
  const auto count = query<unsigned>(api.device_get_max_mig_count, device).value_or(0);
  for (unsigned index = 0; index < std::min(count, kMaxParts); ++index) {
    const auto part = query<nvmlDevice>(api.device_get_mig_handle, device, index);
    if (!part || *part == nullptr) continue;  // the numbers have holes
    const auto gpu_instance = query<unsigned>(api.device_get_gpu_instance, *part);
    const auto compute_instance = query<unsigned>(api.device_get_compute_instance, *part);
    if (gpu_instance && compute_instance)
      handles.push_back({*part, *gpu_instance, *compute_instance});
  }
  return handles;
}

std::vector<MigInstance> query_mig_instances(const NvmlApi& api, nvmlDevice device,
                                             std::optional<uint64_t> device_bytes) {
  std::vector<MigInstance> instances;
  for (const MigHandle& handle : query_mig_handles(api, device)) {
    MigInstance instance;
    instance.gpu_instance = handle.gpu_instance;
    instance.compute_instance = handle.compute_instance;
    instance.uuid = query_text(api.device_get_uuid, handle.device);
    instance.profile = profile_in(query_text(api.device_get_name, handle.device));
    const auto same = std::ranges::find(instances, handle.gpu_instance, &MigInstance::gpu_instance);
    instance.memory =
        same != instances.end() ? same->memory : memory_of(api, handle.device, device_bytes);
    instances.push_back(std::move(instance));
  }
  return instances;
}

}  // namespace vram::gpu::nvml
