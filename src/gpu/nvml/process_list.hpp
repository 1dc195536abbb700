// The processes of a device as one list, from lists of several struct generations. Part of Nvml.
#pragma once

#include "gpu/nvml/nvml_api.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace vram::gpu::nvml {

enum class ProcessKind : uint8_t { kCompute, kGraphics, kMps };

// Returns the list of the newest function that works; nothing if none does.
[[nodiscard]] std::optional<std::vector<DeviceProcess>> list_processes(const NvmlApi& api,
                                                                       ProcessKind kind,
                                                                       nvmlDevice device);

// One entry a process and MIG instance, by pid. A process that computes and draws is in several
// lists with the same memory: its figures are not added.
[[nodiscard]] std::vector<DeviceProcess> merge_processes(std::vector<DeviceProcess> all);

// The same process in the same instance of MIG.
[[nodiscard]] bool is_same(const DeviceProcess& one, const DeviceProcess& other);

// How busy each process kept the device in the last second, if the driver saw it working.
[[nodiscard]] std::map<uint32_t, uint32_t> query_percent_by_pid(const NvmlApi& api,
                                                                nvmlDevice device);

}  // namespace vram::gpu::nvml
