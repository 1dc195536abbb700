// Parses /proc/<pid>/fdinfo/<fd> of a DRM client, in the standard format (5.19 and later) and in
// amdgpu's format of 5.14 to 5.18. A pure function.
//
// A client is one open of a device; several descriptors and processes may share it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::gpu::drm {

// An engine's time in ticks of the device's clock, if the driver has no nanoseconds (xe).
struct EngineCycles {
  std::string name;
  uint64_t busy = 0;
  uint64_t total = 0;     // the clock itself
  uint32_t capacity = 1;  // engines of that name
};

// An engine's time in nanoseconds (amdgpu, i915): of one engine, if several have the same name.
struct EngineTime {
  std::string name;
  uint64_t busy_ns = 0;
};

struct ClientFigures {
  std::optional<std::string> pci_id;
  std::optional<uint64_t> id;          // with the device, this client and no other
  std::optional<uint64_t> used_bytes;  // of the device's memory
  std::optional<uint64_t> host_bytes;  // of the host's
  std::vector<EngineTime> times;
  std::vector<EngineCycles> cycles;
  bool is_compute = false;
  bool is_graphics = false;
};

// Returns nothing if the descriptor is not one of DRM, or its driver reports nothing.
[[nodiscard]] std::optional<ClientFigures> parse_fdinfo(std::string_view text);

// Expands "03:00.0" to "0000:03:00.0"; nothing if it is no PCI address.
[[nodiscard]] std::optional<std::string> as_pci_id(std::string_view text);

}  // namespace vram::gpu::drm
