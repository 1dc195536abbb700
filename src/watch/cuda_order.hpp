// Which device a process means by CUDA's number, as far as that can be told from outside: CUDA
// numbers what CUDA_VISIBLE_DEVICES leaves visible, in its order; without it all devices, in an
// order that is the management library's only where the devices are equal or CUDA_DEVICE_ORDER says
// so.
#pragma once

#include "watch/process_table.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vram::watch {

// The device's place in the snapshot; nothing: it can't be known.
[[nodiscard]] std::optional<uint32_t> device_of_cuda(uint64_t ordinal, const KnownProcess& process,
                                                     const std::vector<Device>& devices);

}  // namespace vram::watch
