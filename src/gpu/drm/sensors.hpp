// What the hwmon folder and the drivers' own files say of a card: memory, load, warmth, power,
// clocks, errors. Each file that is missing or nonsense takes its own figure away.
//
// One thread at a time.
#pragma once

#include "gpu/drm/card.hpp"
#include "gpu/drm/files.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace vram::gpu::drm {

// Power from a counter of energy, which is all that Intel's drivers have: between two calls.
class EnergyMeter {
 public:
  [[nodiscard]] std::optional<uint32_t> milliwatts(std::optional<uint64_t> microjoules,
                                                   int64_t now_ns);

 private:
  std::optional<uint64_t> microjoules_;
  int64_t time_ns_ = 0;
};

// Everything of a sample but the index and the processes. `sys` has the control groups' word on
// memory, where the driver has none.
void read_sensors(Files& files, const Card& card, const std::string& sys, EnergyMeter& meter,
                  DeviceSample& sample);
[[nodiscard]] DeviceHealth read_health(Files& files, const Card& card);
[[nodiscard]] std::optional<uint32_t> read_power_limit(Files& files, const Card& card);

}  // namespace vram::gpu::drm
