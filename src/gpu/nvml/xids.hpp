// Meanings of common Xids, from NVIDIA's list of Xid errors; used for live events (watch/) and for
// the kernel's log (doctor/). Constant.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace vram::gpu::nvml {

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
