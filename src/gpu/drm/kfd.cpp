#include "gpu/drm/kfd.hpp"

#include "gpu/drm/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace vram::gpu::drm {
namespace {

std::optional<uint32_t> property(std::string_view properties, std::string_view name) {
  return as_small_number(value_of(properties, name, ' ').value_or(""));
}

// A node's place: a domain, and bus, device and function in 16 bits. The number of a part stands
// in the four highest bits, or, with other kernels, in place of the function.
std::optional<std::string> card_of(std::string_view properties,
                                   std::span<const std::string> cards) {
  constexpr uint32_t kNoPart = 0x0fff'ffff;
  const auto location = property(properties, "location_id");
  const auto domain = as_small_number(value_of(properties, "domain", ' ').value_or("0"));
  if (!location || (*location & kNoPart) > 0xffff || !domain || *domain > 0xffff)
    return std::nullopt;
  const uint32_t place = *location & kNoPart;
  for (const uint32_t function : {place & 7, 0U}) {
    auto id =
        fmt::format("{:04x}:{:02x}:{:02x}.{}", *domain, place >> 8, (place >> 3) & 31, function);
    if (std::ranges::find(cards, id) != cards.end()) return id;
  }
  return std::nullopt;
}

}  // namespace

Kfd Kfd::open(Files& files, const std::string& sys, std::span<const std::string> cards) {
  Kfd kfd(sys + "/class/kfd/kfd");
  const std::string nodes = kfd.folder_ + "/topology/nodes/";
  for (const uint32_t node : files.numbers_in(nodes)) {
    const std::string folder = nodes + std::to_string(node);
    const auto id = as_small_number(trimmed(files.read(folder + "/gpu_id")));
    if (!id || *id == 0) continue;  // a processor's node
    const std::string_view properties = files.read(folder + "/properties");
    if (auto card = card_of(properties, cards))
      kfd.gpus_.push_back({*id, *std::move(card), property(properties, "drm_render_minor")});
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
