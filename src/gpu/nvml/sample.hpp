// A sample of a device with few calls: what changes fast is asked for each time, the rest in turn.
// Part of Nvml.
#pragma once

#include "gpu/nvml/mig.hpp"
#include "gpu/nvml/nvml_api.hpp"
#include "gpu/telemetry.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::gpu::nvml {

// What is known of a device from the samples before.
struct Kept {
  nvmlDevice device = nullptr;  // finding it takes the driver longer than a sample
  std::optional<std::chrono::steady_clock::time_point> sampled;
  unsigned next = 0;  // the figure whose turn it is
  std::optional<uint32_t> celsius;
  std::optional<uint32_t> core_mhz;
  std::optional<uint32_t> memory_mhz;
  std::optional<std::vector<std::string>> throttle_reasons;
  std::optional<uint32_t> milliwatts;  // where no field has it
  std::vector<DeviceProcess> mps;      // of MPS, and in no other list
  std::vector<MigHandle> parts;        // where the device itself names no process
};

// At most eight calls: six, and two of the seven figures of Kept. The first sample of a device, and
// one that comes later than kPause after the last, asks for all of them. More: one for each part of
// a MIG device that names no process itself, one for each list that grew out of its room, one for
// each function that the driver has by name only.
inline constexpr std::chrono::seconds kPause{3};

// Not kSuccess: the device is out of reach, and nothing of the sample holds.
[[nodiscard]] NvmlReturn take_sample(const NvmlApi& api, Kept& kept, DeviceSample& sample);

}  // namespace vram::gpu::nvml
