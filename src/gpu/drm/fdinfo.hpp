// What the kernel says of one DRM client in /proc/<pid>/fdinfo/<fd>: in the standard form (5.19 and
// later) and in amdgpu's own of 5.14 to 5.18. A pure function of the text.
//
// A client is one opening of a device; the same one may stand in several descriptors and processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::gpu::drm {

// An engine's time in ticks of the device's own clock, where there are no nanoseconds (xe).
struct EngineCycles {
  std::string name;
  uint64_t busy = 0;
  uint64_t total = 0;     // the clock itself
  uint32_t capacity = 1;  // engines of that name
};

// An engine's time in nanoseconds (amdgpu, i915): of one engine, where there are several of its
// name.
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

// Nothing: the descriptor is none of DRM's, or its driver says nothing.
[[nodiscard]] std::optional<ClientFigures> parse_fdinfo(std::string_view text);

// "0000:03:00.0" of "03:00.0"; nothing where it is no address of PCI.
[[nodiscard]] std::optional<std::string> as_pci_id(std::string_view text);

}  // namespace vram::gpu::drm
