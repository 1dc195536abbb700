// GPUs as PCI's bus and the kernel's graphics drivers show them.
#include "doctor/facts/readers.hpp"
#include "gpu/drm/card.hpp"
#include "gpu/drm/text.hpp"

#include <algorithm>

namespace vram::doctor {
namespace {

constexpr uint32_t kDisplay = 0x03;
constexpr uint32_t kAccelerator = 0x12;  // AMD's Instinct
constexpr size_t kFirstOfConfig = 4;     // maker and chip

// "0x10de"
std::optional<uint32_t> hexadecimal(const Tree& tree, const std::string& path) {
  const std::string text = tree.line(path);
  if (!text.starts_with("0x")) return std::nullopt;
  return gpu::drm::parse_number<uint32_t>(std::string_view(text).substr(2), 16);
}

std::optional<gpu::Vendor> vendor_of(uint32_t maker) {
  switch (maker) {
    case 0x10de:
      return gpu::Vendor::kNvidia;
    case 0x1002:
      return gpu::Vendor::kAmd;
    case 0x8086:
      return gpu::Vendor::kIntel;
    default:
      return std::nullopt;
  }
}

// Reading a device's own registers wakes it; a sleeping one answers, so it is not asked.
bool is_gone(const Tree& tree, const std::string& folder) {
  gpu::drm::Files files;
  if (gpu::drm::is_asleep(files, tree.at(folder))) return false;
  const std::string config = tree.read(folder + "/config", kFirstOfConfig).value_or("");
  return config.size() == kFirstOfConfig &&
         std::ranges::all_of(config, [](char byte) { return byte == '\xff'; });
}

std::string name_of_link(const std::string& target) {
  return target.substr(target.rfind('/') + 1);  // npos + 1: all of it
}

}  // namespace

std::vector<PciGpu> read_gpus(const Tree& tree) {
  std::vector<PciGpu> gpus;
  const std::string bus = "/sys/bus/pci/devices";
  for (const std::string& name : tree.names(bus)) {
    const std::string folder = bus + "/" + name;
    const auto kind = hexadecimal(tree, folder + "/class");
    const auto vendor = vendor_of(hexadecimal(tree, folder + "/vendor").value_or(0));
    if (!vendor || !kind || (*kind >> 16U != kDisplay && *kind >> 16U != kAccelerator)) continue;
    gpus.push_back({name, *vendor, hexadecimal(tree, folder + "/device").value_or(0),
                    name_of_link(tree.link(folder + "/driver")), is_gone(tree, folder)});
  }
  return gpus;
}

std::vector<DrmFacts> read_drm(const Tree& tree) {
  std::vector<DrmFacts> found;
  gpu::drm::Files files;
  for (const gpu::drm::Card& card : gpu::drm::find_cards(files, tree.at("/sys"))) {
    for (const std::string& node : card.nodes) {
      if (!node.starts_with("renderD")) continue;
      found.push_back({card.pci_id, gpu::drm::name_of(card.driver), tree.node("/dev/dri/" + node)});
      break;
    }
  }
  return found;
}

}  // namespace vram::doctor
