// Gpm: what the performance counters of a device say between two moments: how much of the memory's
// bandwidth is used, and what crosses PCIe and NVLink. Hopper and newer, where the driver has it
// for everybody. Part of Nvml.
//
//     take() ──▶ older, newer sample ──▶ read() ──▶ GpmFigures
//
// Any thread; who comes while another one is asking leaves it to that one. The driver's samples are
// freed at the end, which must come before the library's.
#pragma once

#include "gpu/nvml/nvml_api.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

namespace vram::gpu::nvml {

struct GpmFigures {
  std::optional<uint32_t> memory_bandwidth_percent;  // of the peak
  std::optional<uint64_t> pcie_sent_bytes_per_second;
  std::optional<uint64_t> pcie_received_bytes_per_second;
  std::optional<uint64_t> nvlink_sent_bytes_per_second;
  std::optional<uint64_t> nvlink_received_bytes_per_second;
};

class Gpm {
 public:
  // Takes the first sample. Null: the driver does not have it for this device. At most four calls.
  [[nodiscard]] static std::shared_ptr<Gpm> open(const NvmlApi& api, nvmlDevice device);
  Gpm(const Gpm&) = delete;
  Gpm& operator=(const Gpm&) = delete;
  ~Gpm();

  // One call. False: the driver does not have it for this device (any more).
  [[nodiscard]] bool take();
  // Of the time between the last two samples; unknown where one of them failed. One call.
  [[nodiscard]] GpmFigures read();

 private:
  Gpm(const NvmlApi& api, nvmlDevice device) : api_(api), device_(device) {}

  const NvmlApi api_;
  nvmlDevice device_;
  std::mutex mutex_;  // of all that follows
  // The newer one first; a sample that failed is of no use.
  struct Sample {
    nvmlGpmSample buffer = nullptr;
    bool is_good = false;
  };
  std::array<Sample, 2> samples_;
};

}  // namespace vram::gpu::nvml
