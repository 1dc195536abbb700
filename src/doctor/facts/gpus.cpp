// GPUs as PCI's bus and the kernel's graphics drivers show them.
#include "doctor/collect.hpp"
#include "gpu/drm/card.hpp"
#include "gpu/drm/files.hpp"

#include <algorithm>
#include <array>

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

// NVIDIA's driver as files show it: the kernel's module, the nodes, the libraries.

namespace {

constexpr std::array kLibraryFolders = {"/usr/lib/x86_64-linux-gnu",
                                        "/usr/lib/aarch64-linux-gnu",
                                        "/usr/lib64",
                                        "/usr/lib",
                                        "/usr/local/lib",
                                        "/usr/local/nvidia/lib64",
                                        "/usr/local/cuda/compat",
                                        "/run/opengl-driver/lib"};
constexpr std::array kModules = {"/updates/dkms/nvidia.ko", "/extra/nvidia.ko",
                                 "/kernel/drivers/video/nvidia.ko", "/updates/nvidia.ko",
                                 "/weak-updates/nvidia/nvidia.ko"};
constexpr std::array kPacked = {"", ".xz", ".zst", ".gz"};

bool is_version(std::string_view word) {
  return word.find('.') != std::string_view::npos && word.size() < 32 &&
         word.find_first_not_of("0123456789.") == std::string_view::npos;
}

// The first word that is a version: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  …".
std::string version_in(std::string_view line) {
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    if (is_version(word)) return std::string(word);
    line.remove_prefix(std::min(line.size(), word.size() + 1));
  }
  return "";
}

bool is_node(std::string_view name) {
  if (name == "nvidiactl" || name == "nvidia-uvm") return true;
  return name.starts_with("nvidia") && gpu::drm::as_small_number(name.substr(6)).has_value();
}

std::vector<DeviceNode> read_nodes(const Tree& tree) {
  std::vector<DeviceNode> nodes;
  for (const std::string& name : tree.names("/dev")) {
    if (is_node(name)) nodes.push_back(tree.node("/dev/" + name));
  }
  return nodes;
}

// "libcuda.so.535.54.03" is what the other names lead to.
std::vector<LibraryFile> read_libraries(const Tree& tree) {
  std::vector<LibraryFile> found;
  for (const std::string folder : kLibraryFolders) {
    if (!tree.link(folder).empty()) continue;  // the same files under another name
    for (const std::string& file : tree.names(folder)) {
      for (const std::string name : {"libnvidia-ml", "libcuda"}) {
        if (!file.starts_with(name + ".so.")) continue;
        const std::string version = file.substr(name.size() + 4);
        if (is_version(version)) found.push_back({folder + "/" + file, name, version});
      }
    }
  }
  return found;
}

bool has_module_file(const Tree& tree, const std::string& kernel) {
  const std::string folder = "/lib/modules/" + kernel;
  return std::ranges::any_of(kModules, [&](const char* module) {
    return std::ranges::any_of(
        kPacked, [&](const char* packed) { return tree.exists(folder + module + packed); });
  });
}

}  // namespace

NvidiaFacts read_nvidia(const Tree& tree, const std::string& kernel) {
  NvidiaFacts facts;
  const std::string version = tree.line("/proc/driver/nvidia/version");
  facts.module_version = version_in(version);
  if (facts.module_version.empty())
    facts.module_version = version_in(tree.line("/sys/module/nvidia/version"));
  if (!version.empty()) facts.is_open = version.find("Open Kernel Module") != std::string::npos;
  facts.has_module = !version.empty() || tree.exists("/sys/module/nvidia");
  facts.has_uvm_module = tree.exists("/sys/module/nvidia_uvm");
  facts.has_module_file = !kernel.empty() && has_module_file(tree, kernel);
  facts.has_module_source = tree.exists("/var/lib/dkms/nvidia");
  facts.nodes = read_nodes(tree);
  facts.libraries = read_libraries(tree);
  return facts;
}

}  // namespace vram::doctor
