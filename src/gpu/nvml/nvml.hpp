// Nvml: NVIDIA devices and their processes, as telemetry.hpp defines them. Uses the newest struct
// version that the driver supports; impossible values (more than the device has, "not available")
// are unknown.
//
//     NvmlApi ──▶ Nvml ──▶ DeviceIdentity   health
//                      ──▶ DeviceHealth     health
//                      ──▶ DeviceSample     cached_readings, gpm, process_list, query
//
// May be called from several threads at the same time. Each function makes a few library calls
// (sample() at most eight, none of them slow) and waits for nothing else. The driver
// cannot be unloaded while an object is open; to release it, or after a driver was lost, destroy
// the object and open another.
#pragma once

#include "base/result.hpp"
#include "gpu/nvml/cached_readings.hpp"
#include "gpu/nvml/nvml_api.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace vram::gpu::nvml {

// Samples a device with few calls: quickly changing figures each time, the others in turns. Part of
// Nvml.

// At most eight calls: five, and three of the figures of Kept. More: those of the first two samples
// (query_in_turn), one for each part of a MIG device that names no process itself, one for each
// list that grew out of its room, one for each function that the driver has by name only.
//
// Not kSuccess: the device is out of reach, and nothing of the sample holds.
[[nodiscard]] NvmlReturn take_sample(const NvmlApi& api, CachedReadings& cached,
                                     DeviceSample& sample);

class Nvml final : public Telemetry {
 public:
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";
  // The one that the environment variable VRAM_NVML names, else kLibrary.
  [[nodiscard]] static std::string library();

  // kNotFound: no such library, or no driver. kUnsupported: the library is not NVML, or does not
  // start; the message has the reason.
  [[nodiscard]] static Result<Nvml> open(const std::string& path = kLibrary);
  Nvml(Nvml&& other) noexcept = default;
  Nvml& operator=(Nvml&&) = delete;
  ~Nvml() override;

  // Includes devices that this process may not access.
  [[nodiscard]] Result<uint32_t> device_count() const override;
  // Of a device that can't be reached everything but the index is unknown.
  [[nodiscard]] DeviceIdentity identity(uint32_t index) const override;
  [[nodiscard]] DeviceHealth health(uint32_t index) const override;
  [[nodiscard]] DeviceSample sample(uint32_t index) const override;
  [[nodiscard]] const NvmlApi& api() const { return api_; }

 private:
  // State kept between samples, by index. The driver is never called with the lock held.
  struct Memory {
    std::mutex mutex;
    std::map<uint32_t, CachedReadings> devices;
  };

  explicit Nvml(const NvmlApi& api) : api_(api), memory_(std::make_unique<Memory>()) {}
  [[nodiscard]] NvmlReturn find(uint32_t index, CachedReadings& cached) const;
  void keep(uint32_t index, CachedReadings cached) const;
  void forget(uint32_t index) const;

  NvmlApi api_;
  std::unique_ptr<Memory> memory_;  // null: moved from, and no longer open
};

}  // namespace vram::gpu::nvml
