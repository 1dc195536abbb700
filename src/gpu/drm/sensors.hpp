// Reads a card's memory, load, temperature, power, clocks and errors from hwmon and the driver's
// files. A missing or invalid file affects only its own figure.
//
// Use it from one thread at a time.
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

// Reads everything of a sample but the index and the processes. `sys`: for the control groups'
// memory figures, if the driver has none.
void read_sensors(Files& files, const Card& card, const std::string& sys, EnergyMeter& meter,
                  DeviceSample& sample);
[[nodiscard]] DeviceHealth read_health(Files& files, const Card& card);
[[nodiscard]] std::optional<uint32_t> read_power_limit(Files& files, const Card& card);

// Memory errors of a card, from amdgpu's folder `ras`: error counts and retired pages. Missing or
// unexpected data is unknown.
//
// Use it from one thread at a time.

[[nodiscard]] EccCounts read_ecc(Files& files, const Card& card);
// Also unknown if the list is longer than the limit of a read.
[[nodiscard]] std::optional<RetiredPages> read_bad_pages(Files& files, const Card& card);

}  // namespace vram::gpu::drm
