// NvmlEvents: what goes wrong with NVIDIA's devices, told when it happens: Xid errors, the numbers
// under which the driver reports faults. What happened before this was opened is not told of.
//
//     Nvml ──▶ NvmlEvents ──▶ XidEvent
//
// One thread at a time. Holds the library open by itself: the driver can't be unloaded meanwhile.
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
  // As Nvml::open; kUnsupported also where the driver has no events, or no device that tells them.
  [[nodiscard]] static Result<NvmlEvents> open(const std::string& path = Nvml::kLibrary);
  NvmlEvents(NvmlEvents&& other) noexcept;
  NvmlEvents& operator=(NvmlEvents&&) = delete;
  ~NvmlEvents();

  // The indexes of the devices whose errors are told.
  [[nodiscard]] std::vector<uint32_t> watched() const;

  // The next event, or nothing when none came in time. An error (a lost device, a driver that is
  // gone) comes again at once when asked again: wait before that, or open anew.
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
