// Maps CUDA's device numbers of a process to devices, as far as possible from outside: CUDA numbers
// the devices in CUDA_VISIBLE_DEVICES in their order, or else all devices. That order is the
// management library's only if the devices are equal or CUDA_DEVICE_ORDER selects it.
#pragma once

#include "watch/process_table.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vram::watch {

// Returns the device's index in the snapshot, or nothing if it cannot be determined.
[[nodiscard]] std::optional<uint32_t> device_of_cuda(uint64_t ordinal, const KnownProcess& process,
                                                     const std::vector<Device>& devices);

}  // namespace vram::watch
