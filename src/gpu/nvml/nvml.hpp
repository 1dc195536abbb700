// Nvml: NVIDIA's devices and their processes, as telemetry.hpp has them. Asks with the newest
// struct that the driver knows and falls back to older ones; what is impossible (more than the
// device has, "not available") is unknown.
//
//     NvmlApi ──▶ Nvml ──▶ DeviceSample
//
// Any thread, at the same time too. Each function makes a few calls of the library, and waits for
// nothing else. While one is open the driver can't be unloaded.
#pragma once

#include "base/result.hpp"
#include "gpu/nvml/nvml_api.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vram::gpu::nvml {

class Nvml {
 public:
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  // kNotFound: no such library, or no driver. kUnsupported: a library that is not NVML, or one that
  // does not start; the message says why.
  [[nodiscard]] static Result<Nvml> open(const std::string& path = kLibrary);
  Nvml(Nvml&& other) noexcept : api_(other.api_), is_open_(std::exchange(other.is_open_, false)) {}
  Nvml& operator=(Nvml&&) = delete;
  ~Nvml();

  // Those that this process may not look at are counted, too.
  [[nodiscard]] Result<uint32_t> device_count() const;
  [[nodiscard]] DeviceSample sample(uint32_t index) const;

 private:
  using Processes = std::optional<std::vector<DeviceProcess>>;
  explicit Nvml(const NvmlApi& api) : api_(api) {}
  [[nodiscard]] DeviceMemory memory_of(nvmlDevice device) const;
  [[nodiscard]] Processes processes_of(nvmlDevice device) const;

  NvmlApi api_;
  bool is_open_ = true;
};
static_assert(Telemetry<Nvml>);

}  // namespace vram::gpu::nvml
