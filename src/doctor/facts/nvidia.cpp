// NVIDIA's driver as files show it: the kernel's module, the nodes, the libraries.
#include "doctor/facts/readers.hpp"
#include "gpu/drm/text.hpp"

#include <algorithm>
#include <array>

namespace vram::doctor {
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
