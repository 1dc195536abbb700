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
#include <span>
#include <string>
#include <string_view>
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

// Meanings of common Xids, from NVIDIA's list of Xid errors; used for live events (watch/) and for
// the kernel's log (doctor/). Constant.

enum class XidSeverity : uint8_t {
  kProgram,  // a program's own doing, as a rule
  kWatch,    // it may become worse
  kBroken,   // the GPU needs a reset, or more
};

struct XidMeaning {
  uint64_t xid = 0;
  XidSeverity gravity = XidSeverity::kProgram;
  std::string_view what;
  std::string_view then;  // what to do
};

// By number.
[[nodiscard]] std::span<const XidMeaning> xid_meanings();
// Null: not one of them.
[[nodiscard]] const XidMeaning* meaning_of_xid(uint64_t xid);

}  // namespace vram::gpu::nvml
