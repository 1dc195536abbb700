// The processes of a device as one list, from lists of several struct generations. Part of Nvml.
#pragma once

#include "gpu/nvml/nvml_api.hpp"
#include "gpu/telemetry.hpp"

#include <optional>
#include <vector>

namespace vram::gpu::nvml {

// What the newest function that works says; nothing: none does.
[[nodiscard]] std::optional<std::vector<DeviceProcess>> list_processes(const NvmlApi& api,
                                                                       const NvmlApi::Lists& lists,
                                                                       nvmlDevice device);

// One entry a process and MIG instance, by pid. A process that computes and draws is in both lists
// with the same memory: its figures are not added.
[[nodiscard]] std::vector<DeviceProcess> merge_processes(std::vector<DeviceProcess> compute,
                                                         std::vector<DeviceProcess> graphics);

}  // namespace vram::gpu::nvml
