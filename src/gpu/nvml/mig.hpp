// The parts that MIG makes of a device. Part of Nvml.
#pragma once

#include "gpu/nvml/nvml_api.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vram::gpu::nvml {

// Valid until the instances are reconfigured.
struct MigHandle {
  nvmlDevice device = nullptr;
  uint32_t gpu_instance = 0;
  uint32_t compute_instance = 0;
};

// Nothing: a device without MIG.
[[nodiscard]] std::optional<bool> query_is_mig(const NvmlApi& api, nvmlDevice device);

// Only the instances that this process may access.
[[nodiscard]] std::vector<MigHandle> query_mig_handles(const NvmlApi& api, nvmlDevice device);

// Compute instances share the memory of their GPU instance, which is read once.
[[nodiscard]] std::vector<MigInstance> query_mig_instances(const NvmlApi& api, nvmlDevice device,
                                                           std::optional<uint64_t> device_bytes);

}  // namespace vram::gpu::nvml
