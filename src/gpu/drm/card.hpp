// A card: one DRM device of a driver known here, as /sys/class/drm has it, and whether it may be
// asked for more (sensors.hpp). Each function opens a file or some, and nothing else; one thread at
// a time.
#pragma once

#include "gpu/drm/files.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::gpu::drm {

enum class Driver : uint8_t { kAmdgpu, kI915, kXe };

struct Card {
  Driver driver = Driver::kAmdgpu;
  std::string pci_id;
  std::string folder;               // /sys/class/drm/card0
  std::string device;               // /sys/class/drm/card0/device
  std::vector<std::string> nodes;   // "card0", "renderD128"; of its parts, too
  std::optional<std::string> chip;  // "1002:744c", PCI's names for maker and chip
};

// By PCI address; a device that has several cards (in parts) once. Of each, only what the bus knows
// is read: nothing that wakes it.
[[nodiscard]] std::vector<Card> find_cards(Files& files, const std::string& sys);
[[nodiscard]] const char* name_of(Driver driver);

// Powered down, or about to be: asking for anything else would wake it. Of any device of PCI, by
// its folder.
[[nodiscard]] bool is_asleep(Files& files, const std::string& device);
[[nodiscard]] bool is_asleep(Files& files, const Card& card);
// The driver still has this device under this name.
[[nodiscard]] bool is_there(Files& files, const Card& card);

}  // namespace vram::gpu::drm
