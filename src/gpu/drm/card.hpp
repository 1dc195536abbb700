// A card: a DRM device of a supported driver, from /sys/class/drm, whether it may be read, and what
// its files say: memory, load, temperature, power, clocks and errors. A missing or invalid file
// affects only its own figure. Use it from one thread at a time.
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

// Power from a counter of energy, which is all that Intel's drivers have: between two calls.
class EnergyMeter {
 public:
  [[nodiscard]] std::optional<uint32_t> milliwatts(std::optional<uint64_t> microjoules,
                                                   int64_t now_ns);

 private:
  std::optional<uint64_t> microjoules_;
  int64_t time_ns_ = 0;
};

// Reads everything of a sample but the index and the processes. `sys`: for the control groups'
// memory figures, if the driver has none.
void read_sensors(Files& files, const Card& card, const std::string& sys, EnergyMeter& meter,
                  DeviceSample& sample);
[[nodiscard]] DeviceHealth read_health(Files& files, const Card& card);
[[nodiscard]] std::optional<uint32_t> read_power_limit(Files& files, const Card& card);

// Memory errors of a card, from amdgpu's folder `ras`.
[[nodiscard]] EccCounts read_ecc(Files& files, const Card& card);
// Also unknown if the list is longer than the limit of a read.
[[nodiscard]] std::optional<RetiredPages> read_bad_pages(Files& files, const Card& card);

}  // namespace vram::gpu::drm
