// Gpm: memory bandwidth and PCIe and NVLink traffic between two moments, from the performance
// counters of Hopper and newer GPUs, if the driver allows everyone to read them. Part of Nvml.
//
//     take() ──▶ older, newer sample ──▶ read() ──▶ GpmFigures
//
// May be called from any thread; a call during another thread's call returns immediately. The
// destructor frees the driver's samples and must run before the library is closed.
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

  // Makes one call. Returns false if the driver does not support it for this device (any more).
  [[nodiscard]] bool take();
  // Figures between the last two samples; unknown if one of them failed. Makes one call.
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
