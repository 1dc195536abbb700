// Nvml: NVIDIA's devices and their processes, as telemetry.hpp has them. Asks with the newest
// struct that the driver knows and falls back to older ones; what is impossible (more than the
// device has, "not available") is unknown.
//
//     NvmlApi ──▶ Nvml ──▶ DeviceIdentity   identity
//                      ──▶ DeviceHealth     health, mig
//                      ──▶ DeviceSample     sample, kept, gpm, process_list, fields
//
// Any thread, at the same time too. Each function makes a few calls of the library (sample() at
// most eight, none of them slow: sample.hpp) and waits for nothing else. While one is open the
// driver can't be unloaded: who wants to let go of it destroys this and opens another. The same
// after a driver was lost.
#pragma once

#include "base/result.hpp"
#include "gpu/nvml/nvml_api.hpp"
#include "gpu/nvml/sample.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace vram::gpu::nvml {

class Nvml final : public Telemetry {
 public:
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";
  // The one that the environment variable VRAM_NVML names, else kLibrary.
  [[nodiscard]] static std::string library();

  // kNotFound: no such library, or no driver. kUnsupported: a library that is not NVML, or one that
  // does not start; the message says why.
  [[nodiscard]] static Result<Nvml> open(const std::string& path = kLibrary);
  Nvml(Nvml&& other) noexcept = default;
  Nvml& operator=(Nvml&&) = delete;
  ~Nvml() override;

  // Those that this process may not look at are counted, too.
  [[nodiscard]] Result<uint32_t> device_count() const override;
  // Of a device that can't be reached everything but the index is unknown.
  [[nodiscard]] DeviceIdentity identity(uint32_t index) const override;
  [[nodiscard]] DeviceHealth health(uint32_t index) const override;
  [[nodiscard]] DeviceSample sample(uint32_t index) const override;
  [[nodiscard]] const NvmlApi& api() const { return api_; }

 private:
  // Between the samples, by index. Nobody calls the driver with the lock held.
  struct Memory {
    std::mutex mutex;
    std::map<uint32_t, Kept> devices;
  };

  explicit Nvml(const NvmlApi& api) : api_(api), memory_(std::make_unique<Memory>()) {}
  [[nodiscard]] NvmlReturn find(uint32_t index, Kept& kept) const;
  void keep(uint32_t index, Kept kept) const;
  void forget(uint32_t index) const;

  NvmlApi api_;
  std::unique_ptr<Memory> memory_;  // null: moved from, and no longer open
};

}  // namespace vram::gpu::nvml
