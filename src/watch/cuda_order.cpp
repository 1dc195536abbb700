#include "watch/cuda_order.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace vram::watch {
namespace {

using Places = std::vector<uint32_t>;

Places places_of_nvidia(const std::vector<Device>& devices) {
  Places places;
  for (uint32_t place = 0; place < devices.size(); ++place) {
    if (devices[place].identity.vendor == gpu::Vendor::kNvidia) places.push_back(place);
  }
  return places;
}

// Whether CUDA's n-th device is the n-th of the management library, which counts by PCI address.
bool is_order_known(const KnownProcess& process, const std::vector<Device>& devices,
                    const Places& places) {
  // There only some of the devices may be; and CUDA counts instances of MIG as devices.
  const auto is_mig = [&](uint32_t place) { return devices[place].health.is_mig.value_or(false); };
  if (process.facts->container || std::ranges::any_of(places, is_mig)) return false;
  if (places.size() == 1 || process.cuda.device_order == "PCI_BUS_ID") return true;
  // By default the fastest comes first, and which that is only CUDA knows.
  return std::ranges::all_of(places, [&](uint32_t place) {
    const auto& name = devices[place].identity.name;
    return name && name == devices[places[0]].identity.name;
  });
}

std::optional<uint32_t> place_of_uuid(std::string_view start, const std::vector<Device>& devices,
                                      const Places& places) {
  std::optional<uint32_t> found;
  for (const uint32_t place : places) {
    const auto& uuid = devices[place].identity.uuid;
    if (!uuid || !uuid->starts_with(start)) continue;
    if (found) return std::nullopt;
    found = place;
  }
  return found;
}

std::string_view without_spaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// An entry of CUDA_VISIBLE_DEVICES: a number, or the beginning of a uuid.
std::optional<uint32_t> place_of_entry(std::string_view entry, bool is_ordered,
                                       const std::vector<Device>& devices, const Places& places) {
  entry = without_spaces(entry);
  if (entry.starts_with("GPU-")) return place_of_uuid(entry, devices, places);
  uint32_t number = 0;
  const char* const end = entry.data() + entry.size();
  const auto [last, error] = std::from_chars(entry.data(), end, number);
  if (!is_ordered || error != std::errc{} || last != end || number >= places.size()) {
    return std::nullopt;
  }
  return places[number];
}

}  // namespace

std::optional<uint32_t> device_of_cuda(uint64_t ordinal, const KnownProcess& process,
                                       const std::vector<Device>& devices) {
  if (!process.cuda.is_known) return std::nullopt;
  const Places places = places_of_nvidia(devices);
  const bool is_ordered = is_order_known(process, devices, places);
  if (!process.cuda.visible_devices) {
    if (!is_ordered || ordinal >= places.size()) return std::nullopt;
    return places[ordinal];
  }
  std::string_view entries = *process.cuda.visible_devices;
  for (uint64_t at = 0;; ++at) {
    const size_t comma = entries.find(',');
    const auto place = place_of_entry(entries.substr(0, comma), is_ordered, devices, places);
    if (at == ordinal || !place) return place;  // CUDA itself stops at the first that is none
    if (comma == std::string_view::npos) return std::nullopt;
    entries.remove_prefix(comma + 1);
  }
}

}  // namespace vram::watch
