// CachedReadings: figures of earlier samples, and those that are read in turns because they are not
// needed in each sample. Part of Nvml.
#pragma once

#include "gpu/nvml/nvml_api.hpp"
#include "gpu/telemetry.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace vram::gpu::nvml {

// Gpm: memory bandwidth and PCIe and NVLink traffic between two moments, from the performance
// counters of Hopper and newer GPUs, if the driver allows everyone to read them. Part of Nvml.
//
//     take() ──▶ older, newer sample ──▶ read() ──▶ GpmFigures
//
// May be called from any thread; a call during another thread's call returns immediately. The
// destructor frees the driver's samples and must run before the library is closed.
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

// The parts that MIG makes of a device. Part of Nvml.

// Valid until the instances are reconfigured.
struct MigHandle {
  nvmlDevice device = nullptr;
  uint32_t gpu_instance = 0;
  uint32_t compute_instance = 0;
};

// Nothing: a device without MIG.
[[nodiscard]] std::optional<bool> query_is_mig(const NvmlApi& api, nvmlDevice device);

// Only the instances that this process may access.
[[nodiscard]] std::vector<MigHandle> query_mig_handles(const NvmlApi& api, nvmlDevice device);

// Compute instances share the memory of their GPU instance, which is read once.
[[nodiscard]] std::vector<MigInstance> query_mig_instances(const NvmlApi& api, nvmlDevice device,
                                                           std::optional<uint64_t> device_bytes);

struct CachedReadings {
  nvmlDevice device = nullptr;  // finding it takes the driver longer than a sample
  std::optional<std::chrono::steady_clock::time_point> sampled;
  unsigned turn = 0;                 // whose it is
  bool has_narrow_counters = false;  // of PCIe: not read again
  std::optional<uint32_t> celsius;
  std::optional<uint32_t> core_mhz;
  std::optional<uint32_t> memory_mhz;
  std::optional<std::vector<std::string>> throttle_reasons;
  std::optional<uint32_t> milliwatts;     // where no field has it
  std::vector<DeviceProcess> mps;         // clients of MPS that are in no other list
  std::vector<DeviceProcess> mps_listed;  // those that are
  std::vector<MigHandle> parts;           // if the device itself lists no processes
  // Of processes that have existed since.
  std::map<uint32_t, uint32_t> percent_by_pid;
  bool is_gpm_queried = false;
  std::shared_ptr<Gpm> gpm;  // null: not opened, or not supported
  GpmFigures traffic;
};

// Reads one of three figures in each sample, so that all are new after four samples, and how busy
// each process is, which takes as long as all other figures (1.4 ms on an H200), in every second
// one. The first sample of a device, and one more than kPause after the last, reads all of them.
// The second one opens Gpm, which needs two samples. While a client of MPS is in no other list,
// every sample reads that list.
inline constexpr std::chrono::seconds kPause{3};
void query_in_turn(const NvmlApi& api, const DeviceSample& sample, CachedReadings& cached);

}  // namespace vram::gpu::nvml
