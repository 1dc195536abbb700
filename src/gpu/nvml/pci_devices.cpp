#include "gpu/nvml/pci_devices.hpp"

#include "gpu/drm/text.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace vram::gpu::nvml {
namespace {

constexpr uint32_t kNvidia = 0x10de;
constexpr uint32_t kDisplay = 0x03;  // the class: graphics cards, and those without an output

// "0x10de"
std::optional<uint32_t> number_in(drm::Files& files, const std::string& path) {
  std::string_view text = drm::trimmed(files.read(path));
  if (!text.starts_with("0x")) return std::nullopt;
  return drm::parse_number<uint32_t>(text.substr(2), 16);
}

bool is_address(std::string_view name) {
  return name.find_first_not_of("0123456789abcdef:.") == std::string_view::npos;
}

// What can't be read is not held against it.
bool is_of_another_driver(drm::Files& files, const std::string& folder) {
  const std::string_view uevent = files.read(folder + "/uevent");
  return !uevent.empty() && drm::value_of(uevent, "DRIVER", '=') != "nvidia";
}

bool is_gpu(drm::Files& files, const std::string& folder) {
  if (number_in(files, folder + "/vendor") != kNvidia) return false;
  const auto kind = number_in(files, folder + "/class");
  return kind && *kind >> 16U == kDisplay && !is_of_another_driver(files, folder);
}

}  // namespace

std::vector<PciDevice> find_pci_devices(drm::Files& files, const std::string& sys) {
  std::vector<PciDevice> devices;
  const std::string bus = sys + "/bus/pci/devices";
  for (const std::string& name : files.names_in(bus)) {
    const std::string folder = bus + "/" + name;
    if (!is_address(name) || !is_gpu(files, folder)) continue;
    const auto chip = number_in(files, folder + "/device");
    devices.push_back({name, folder, chip ? fmt::format("{:04x}:{:04x}", kNvidia, *chip) : ""});
  }
  return devices;
}

}  // namespace vram::gpu::nvml
