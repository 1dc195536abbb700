// Kept: what is known of a device from the samples before, and the figures that are asked for in
// turn, since nobody needs all of them at each tick. Part of Nvml.
#pragma once

#include "gpu/nvml/gpm.hpp"
#include "gpu/nvml/mig.hpp"
#include "gpu/nvml/nvml_api.hpp"
#include "gpu/telemetry.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vram::gpu::nvml {

struct Kept {
  nvmlDevice device = nullptr;  // finding it takes the driver longer than a sample
  std::optional<std::chrono::steady_clock::time_point> sampled;
  unsigned turn = 0;                 // whose it is
  bool has_narrow_counters = false;  // of PCIe: not worth asking for again
  std::optional<uint32_t> celsius;
  std::optional<uint32_t> core_mhz;
  std::optional<uint32_t> memory_mhz;
  std::optional<std::vector<std::string>> throttle_reasons;
  std::optional<uint32_t> milliwatts;           // where no field has it
  std::vector<DeviceProcess> mps;               // clients of MPS that are in no other list
  std::vector<DeviceProcess> mps_listed;        // those that are
  std::vector<MigHandle> parts;                 // where the device itself names no process
  std::map<uint32_t, uint32_t> percent_by_pid;  // of processes that have been there ever since
  bool is_gpm_asked = false;
  std::shared_ptr<Gpm> gpm;  // null: not asked, or not supported
  GpmFigures traffic;
};

inline constexpr uint32_t kMostMilliwatts = 100'000'000;

// Three of the figures, a call each, so that all are new after four samples; how busy each process
// is, which costs as much as all others together (1.4 ms on an H200), after two. The first sample
// of a device, and one that comes later than kPause after the last, asks for all of them. Gpm is
// opened by the second, since one sample alone has no use for it. While a client of MPS is in no
// other list, that list is asked for by each sample.
inline constexpr std::chrono::seconds kPause{3};
void ask_in_turn(const NvmlApi& api, const DeviceSample& sample, Kept& kept);

}  // namespace vram::gpu::nvml
