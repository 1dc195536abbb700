#include "gpu/drm/card.hpp"

#include "gpu/drm/fdinfo.hpp"
#include "gpu/drm/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vram::gpu::drm {
namespace {

constexpr std::array kDrivers = {Driver::kAmdgpu, Driver::kI915, Driver::kXe};

// "1002:744c"
std::optional<std::string> chip_of(std::string_view uevent) {
  const auto value = value_of(uevent, "PCI_ID", '=');
  const auto colon = value ? value->find(':') : std::string_view::npos;
  if (colon == std::string_view::npos) return std::nullopt;
  const auto maker = parse_number<uint16_t>(value->substr(0, colon), 16);
  const auto chip = parse_number<uint16_t>(value->substr(colon + 1), 16);
  if (!maker || !chip) return std::nullopt;
  return fmt::format("{:04x}:{:04x}", *maker, *chip);
}

std::optional<Driver> driver_of(std::string_view uevent) {
  const auto name = value_of(uevent, "DRIVER", '=');
  const auto found =
      std::ranges::find_if(kDrivers, [&](Driver driver) { return name == name_of(driver); });
  return found == kDrivers.end() ? std::nullopt : std::optional(*found);
}

std::optional<std::string> pci_id_of(std::string_view uevent) {
  return as_pci_id(value_of(uevent, "PCI_SLOT_NAME", '=').value_or(""));
}

// "card0", and neither "card0-DP-1" nor "renderD128".
bool is_card(std::string_view name) {
  constexpr std::string_view kCard = "card";
  return name.starts_with(kCard) && as_small_number(name.substr(kCard.size()));
}

std::optional<Card> card_at(Files& files, const std::string& folder, const std::string& name) {
  const std::string device = folder + "/device";
  const std::string_view uevent = files.read(device + "/uevent");
  const auto driver = driver_of(uevent);
  const auto pci_id = pci_id_of(uevent);
  if (!driver || !pci_id) return std::nullopt;
  Card card{*driver, *pci_id, folder, device, {name}, chip_of(uevent)};
  for (std::string& node : files.names_in(device + "/drm")) {
    if (node != name) card.nodes.push_back(std::move(node));
  }
  return card;
}

}  // namespace

const char* name_of(Driver driver) {
  switch (driver) {
    case Driver::kAmdgpu:
      return "amdgpu";
    case Driver::kI915:
      return "i915";
    case Driver::kXe:
      return "xe";
  }
  return "";
}

std::vector<Card> find_cards(Files& files, const std::string& sys) {
  std::vector<Card> cards;
  const std::string folder = sys + "/class/drm";
  for (const std::string& name : files.names_in(folder)) {
    if (!is_card(name)) continue;
    if (auto card = card_at(files, folder + "/" + name, name)) cards.push_back(*std::move(card));
  }
  std::ranges::stable_sort(cards, {}, &Card::pci_id);
  const auto again = std::ranges::unique(cards, {}, &Card::pci_id);
  cards.erase(again.begin(), again.end());
  return cards;
}

bool is_asleep(Files& files, const std::string& device) {
  const auto status = trimmed(files.read(device + "/power/runtime_status"));
  return status == "suspended" || status == "suspending";
}

bool is_asleep(Files& files, const Card& card) { return is_asleep(files, card.device); }

bool is_there(Files& files, const Card& card) {
  const std::string_view uevent = files.read(card.device + "/uevent");
  return driver_of(uevent) == card.driver && pci_id_of(uevent) == card.pci_id;
}

}  // namespace vram::gpu::drm
