// A device's identity and health: figures that are not read at each tick. Part of Nvml.
#pragma once

#include "gpu/nvml/nvml_api.hpp"
#include "gpu/telemetry.hpp"

namespace vram::gpu::nvml {

// But for the NUMA node: the kernel has it in a file (NvmlWhenAwake), without a call.
[[nodiscard]] DeviceIdentity query_identity(const NvmlApi& api, nvmlDevice device);

[[nodiscard]] DeviceHealth query_health(const NvmlApi& api, nvmlDevice device);

}  // namespace vram::gpu::nvml
