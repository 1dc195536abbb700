// Drops impossible figures: device memory above its total, percentages above 100, and rates that no
// bus reaches become unknown, from any source. Pure functions.
#pragma once

#include "gpu/telemetry.hpp"

#include <cstdint>
#include <optional>

namespace vram::watch {

// Nothing if the figure is above most; where most is unknown, the figure.
[[nodiscard]] std::optional<uint64_t> at_most(std::optional<uint64_t> figure,
                                              std::optional<uint64_t> limit);
// Unknown if either is, or on overflow.
[[nodiscard]] std::optional<uint64_t> plus(std::optional<uint64_t> sum,
                                           std::optional<uint64_t> figure);
void drop_impossible(gpu::DeviceSample& sample, gpu::DeviceHealth& health);

}  // namespace vram::watch
