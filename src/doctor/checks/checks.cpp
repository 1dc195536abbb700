#include "doctor/checks/checks.hpp"

#include "base/language.hpp"
#include "base/text.hpp"
#include "gpu/drm/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vram::doctor {
namespace {

bool is_one_of(std::optional<std::string_view> value, std::array<std::string_view, 4> words) {
  if (!value) return false;
  return std::ranges::count(words, ascii_lower(*value)) > 0;
}

uint32_t number_at(std::string_view text) {
  return gpu::drm::as_small_number(text.substr(0, text.find_first_not_of("0123456789")))
      .value_or(0);
}

}  // namespace

std::vector<const PciGpu*> nvidia_gpus(const MachineFacts& facts) {
  std::vector<const PciGpu*> found;
  for (const PciGpu& gpu : facts.gpus) {
    if (gpu.vendor == gpu::Vendor::kNvidia && gpu.driver != "vfio-pci") found.push_back(&gpu);
  }
  return found;
}

bool has_nvidia(const MachineFacts& facts) {
  return !nvidia_gpus(facts).empty() || facts.nvidia.has_module || nvml_works(facts) ||
         facts.platform.has_dxg;
}

bool nvml_works(const MachineFacts& facts) { return facts.nvidia.nvml.devices.value_or(0) > 0; }
bool cuda_works(const MachineFacts& facts) { return facts.nvidia.cuda.devices.value_or(0) > 0; }

const DeviceNode* node_of(const MachineFacts& facts, std::string_view path) {
  const auto node = std::ranges::find(facts.nvidia.nodes, path, &DeviceNode::path);
  return node == facts.nvidia.nodes.end() || !node->exists ? nullptr : &*node;
}

bool has_nodes(const MachineFacts& facts) { return node_of(facts, "/dev/nvidiactl") != nullptr; }

std::optional<std::string_view> variable(const MachineFacts& facts, const std::string& name) {
  const auto found = facts.process.environment.find(name);
  if (found == facts.process.environment.end()) return std::nullopt;
  return found->second;
}

bool is_on(std::optional<std::string_view> value) {
  return is_one_of(value, {"1", "true", "yes", "on"});
}
bool is_off(std::optional<std::string_view> value) {
  return is_one_of(value, {"0", "false", "no", "off"});
}

std::string shown(const MachineFacts& facts, const std::string& name) {
  constexpr size_t kMax = 200;
  const std::string_view value = variable(facts, name).value_or("");
  const std::string text = printable(value.substr(0, kMax));
  return fmt::format("{}={}{}", name, text, value.size() > kMax ? "…" : "");
}

std::string as_root(const MachineFacts& facts, std::string_view command) {
  return fmt::format("{}{}", facts.process.uid == 0U ? "" : "sudo ", command);
}

std::string on_host(const MachineFacts& facts, std::string_view command) {
  return facts.container.is_inside ? fmt::format("sudo {}", command) : as_root(facts, command);
}

std::string place(const MachineFacts& facts) {
  return facts.container.is_inside ? tr("on the host, not in this container") : "";
}

uint32_t branch_of(std::string_view version) { return number_at(version); }

std::string driver_version(const MachineFacts& facts) {
  return facts.nvidia.nvml.version.empty() ? facts.nvidia.module_version
                                           : facts.nvidia.nvml.version;
}

bool is_kernel_before(const MachineFacts& facts, uint32_t major, uint32_t minor) {
  const std::string_view kernel = facts.platform.kernel;
  const auto dot = kernel.find('.');
  if (dot == std::string_view::npos) return false;
  const uint32_t first = number_at(kernel);
  return first < major || (first == major && number_at(kernel.substr(dot + 1)) < minor);
}

const std::vector<watch::Device>& devices(const MachineFacts& facts) {
  static const std::vector<watch::Device> kNone;
  return facts.snapshot ? facts.snapshot->devices : kNone;
}

uint64_t largest_memory(const MachineFacts& facts) {
  uint64_t largest = 0;
  for (const watch::Device& device : devices(facts))
    largest = std::max(largest, device.sample.memory.total_bytes.value_or(0));
  return largest;
}

std::optional<std::string> nvidia_name(const watch::Device& device) {
  constexpr std::string_view kLetters =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:.-";
  std::string name =
      device.identity.uuid ? *device.identity.uuid : device.identity.pci_id.value_or("");
  const bool is_name = !name.empty() && name.find_first_not_of(kLetters) == std::string::npos;
  if (device.identity.vendor != gpu::Vendor::kNvidia || !is_name) return std::nullopt;
  return name;
}

std::optional<std::string> nvidia_smi(const watch::Device& device, std::string_view what) {
  const auto name = nvidia_name(device);
  return name ? std::optional(fmt::format("nvidia-smi -i {} {}", *name, what)) : std::nullopt;
}

std::string name_of(const watch::Device& device) {
  const std::string number = fmt::format("GPU {}", device.identity.index);
  return device.identity.name ? fmt::format("{} ({})", number, printable(*device.identity.name))
                              : number;
}

}  // namespace vram::doctor
