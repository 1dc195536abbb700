#include "gpu/drm/kfd.hpp"

#include "gpu/drm/text.hpp"

#include <fmt/format.h>

#include <optional>

namespace vram::gpu::drm {
namespace {

// A node's place: a domain, and bus, device and function in 16 bits.
std::optional<std::string> pci_id_of(std::string_view properties) {
  const auto location = value_of(properties, "location_id", ' ');
  if (!location) return std::nullopt;
  const auto place = as_small_number(*location);
  const auto domain = as_small_number(value_of(properties, "domain", ' ').value_or("0"));
  if (!place || *place > 0xffff || !domain || *domain > 0xffff) return std::nullopt;
  return fmt::format("{:04x}:{:02x}:{:02x}.{}", *domain, *place >> 8, (*place >> 3) & 31,
                     *place & 7);
}

}  // namespace

Kfd Kfd::open(Files& files, const std::string& sys) {
  Kfd kfd(sys + "/class/kfd/kfd");
  const std::string nodes = kfd.folder_ + "/topology/nodes/";
  for (const uint32_t node : files.numbers_in(nodes)) {
    const std::string folder = nodes + std::to_string(node);
    const auto id = as_small_number(trimmed(files.read(folder + "/gpu_id")));
    if (!id || *id == 0) continue;  // a processor's node
    if (auto pci_id = pci_id_of(files.read(folder + "/properties")))
      kfd.gpus_.push_back({*id, *std::move(pci_id)});
  }
  return kfd;
}

std::vector<Kfd::Use> Kfd::uses_of(Files& files, const std::vector<Gpu>& gpus) const {
  std::vector<Use> uses;
  if (gpus.empty()) return uses;
  for (const uint32_t pid : files.numbers_in(folder_ + "/proc")) {
    std::map<std::string, uint64_t> held;
    for (const Gpu& gpu : gpus) {
      const auto path = fmt::format("{}/proc/{}/vram_{}", folder_, pid, gpu.id);
      held[gpu.pci_id] += as_bytes(files.read(path)).value_or(0);
    }
    for (const auto& [pci_id, bytes] : held) {
      if (bytes > 0) uses.push_back({pid, pci_id, bytes});
    }
  }
  return uses;
}

}  // namespace vram::gpu::drm
