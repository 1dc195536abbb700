// NvmlEvents: faults of NVIDIA devices as they happen: Xid errors, the numbers under which the
// driver reports them. Earlier faults are not reported.
//
//     Nvml ──▶ NvmlEvents ──▶ XidEvent
//
// Use it from one thread at a time. Keeps the library open: the driver cannot be unloaded
// meanwhile.
#pragma once

#include "base/result.hpp"
#include "gpu/nvml/nvml.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::gpu::nvml {

class NvmlEvents {
 public:
  // As Nvml::open; also kUnsupported if the driver has no events, or no device reports them.
  [[nodiscard]] static Result<NvmlEvents> open(const std::string& path = Nvml::kLibrary);
  NvmlEvents(NvmlEvents&& other) noexcept;
  NvmlEvents& operator=(NvmlEvents&&) = delete;
  ~NvmlEvents();

  // Returns the indexes of the devices whose errors are reported.
  [[nodiscard]] std::vector<uint32_t> watched() const;

  // Returns the next event, or nothing on a timeout. After an error (a lost device, an unloaded
  // driver) further calls fail immediately: pause before the next one, or open again.
  [[nodiscard]] Result<std::optional<XidEvent>> wait(std::chrono::milliseconds at_most);

 private:
  struct Watched {
    nvmlDevice device;
    uint32_t index;
  };
  NvmlEvents(Nvml nvml, nvmlEventSet set) : nvml_(std::move(nvml)), set_(set) {}
  void watch_all(uint32_t count);

  Nvml nvml_;
  nvmlEventSet set_;  // null: moved from
  std::vector<Watched> watched_;
};

}  // namespace vram::gpu::nvml
