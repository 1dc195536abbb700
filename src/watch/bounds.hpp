// What can't be is not known: figures of a device's memory above its total, whoever said so, are
// dropped one by one, and so are percents above 100 and rates that no bus has. Pure functions.
#pragma once

#include "gpu/telemetry.hpp"

#include <cstdint>
#include <optional>

namespace vram::watch {

// Nothing if the figure is above most; where most is unknown, the figure.
[[nodiscard]] std::optional<uint64_t> at_most(std::optional<uint64_t> figure,
                                              std::optional<uint64_t> limit);
// Unknown where either is, or where it has no room.
[[nodiscard]] std::optional<uint64_t> plus(std::optional<uint64_t> sum,
                                           std::optional<uint64_t> figure);
void drop_impossible(gpu::DeviceSample& sample, gpu::DeviceHealth& health);

}  // namespace vram::watch
