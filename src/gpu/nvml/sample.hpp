// Samples a device with few calls: quickly changing figures each time, the others in turns. Part of
// Nvml.
#pragma once

#include "gpu/nvml/cached_readings.hpp"
#include "gpu/nvml/nvml_api.hpp"
#include "gpu/telemetry.hpp"

namespace vram::gpu::nvml {

// At most eight calls: five, and three of the figures of Kept. More: those of the first two samples
// (query_in_turn), one for each part of a MIG device that names no process itself, one for each
// list that grew out of its room, one for each function that the driver has by name only.
//
// Not kSuccess: the device is out of reach, and nothing of the sample holds.
[[nodiscard]] NvmlReturn take_sample(const NvmlApi& api, CachedReadings& cached,
                                     DeviceSample& sample);

}  // namespace vram::gpu::nvml
