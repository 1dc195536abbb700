// A card: a DRM device of a supported driver, from /sys/class/drm, and whether it may be read
// (sensors.hpp). Each function only reads a few files; use them from one thread at a time.
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

// Finds cards by PCI address; a device with several cards (partitions) once. Reads only the bus's
// files, so that no card is woken.
[[nodiscard]] std::vector<Card> find_cards(Files& files, const std::string& sys);
[[nodiscard]] const char* name_of(Driver driver);

// Returns whether a PCI device, given by its folder, is powered down or about to be: any other read
// would wake it.
[[nodiscard]] bool is_asleep(Files& files, const std::string& device);
[[nodiscard]] bool is_asleep(Files& files, const Card& card);
// The driver still has this device under this name.
[[nodiscard]] bool is_there(Files& files, const Card& card);

}  // namespace vram::gpu::drm
