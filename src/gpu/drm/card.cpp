#include "gpu/drm/card.hpp"

#include "base/text.hpp"
#include "gpu/drm/fdinfo.hpp"
#include "gpu/drm/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <utility>

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

constexpr uint32_t kMaxCelsius = 200;
constexpr uint32_t kMaxMilliwatts = 10'000'000;
constexpr uint32_t kMaxMhz = 20'000;
constexpr uint32_t kMaxTiles = 8;
constexpr uint32_t kMaxTemperatures = 8;  // files of them in one folder

std::optional<uint32_t> at_most(std::optional<uint64_t> number, uint64_t most) {
  return number && *number <= most ? std::optional(static_cast<uint32_t>(*number)) : std::nullopt;
}

// The first of the files that holds a number, of at least so much.
std::optional<uint64_t> first_number(Files& files, const std::string& folder,
                                     std::initializer_list<const char*> names, uint64_t least = 0) {
  for (const char* name : names) {
    const auto number = as_number(files.read(folder + "/" + name));
    if (number && *number >= least) return number;
  }
  return std::nullopt;
}

// A counter that never counted, a limit that is switched off and one that can't be are 0.
std::optional<uint64_t> first_above_zero(Files& files, const std::string& folder,
                                         std::initializer_list<const char*> names) {
  return first_number(files, folder, names, 1);
}

std::optional<uint64_t> read_bytes(Files& files, const std::string& path) {
  return as_bytes(files.read(path));
}

std::optional<std::string> hwmon_of(Files& files, const Card& card) {
  const std::string folder = card.device + "/hwmon";
  for (const std::string& name : files.names_in(folder)) {
    if (name.starts_with("hwmon")) return folder + "/" + name;
  }
  return std::nullopt;
}

DeviceMemory memory_of(std::optional<uint64_t> total, std::optional<uint64_t> used) {
  DeviceMemory memory;
  memory.total_bytes = total;
  if (!total || !used || *used <= *total) memory.used_bytes = used;
  if (total && memory.used_bytes) memory.free_bytes = *total - *used;
  return memory;
}

// `kind`: "vram", "vis_vram", "gtt".
DeviceMemory amd_memory(Files& files, const Card& card, const char* kind) {
  const std::string start = fmt::format("{}/mem_info_{}_", card.device, kind);
  const auto total = read_bytes(files, start + "total");
  return memory_of(total, read_bytes(files, start + "used"));
}

// Of the states that a clock may have, the one with a star: "1: 2304Mhz *".
std::optional<uint32_t> current_mhz(std::string_view states) {
  std::optional<uint32_t> mhz;
  for_each_line(states, [&](std::string_view line) {
    const auto colon = line.find(':');
    const auto unit = line.find("Mhz");
    if (!line.ends_with('*') || colon == std::string_view::npos || unit == std::string_view::npos ||
        unit < colon)
      return;
    mhz = at_most(as_number(line.substr(colon + 1, unit - colon - 1)), kMaxMhz);
  });
  return mhz;
}

// "drm/0000:03:00.0/vram0 8518598656", a line for each part of the memory.
std::optional<uint64_t> capacity_of(std::string_view capacities, const std::string& pci_id) {
  std::optional<uint64_t> sum;
  const std::string ours = "drm/" + pci_id + "/vram";
  for_each_line(capacities, [&](std::string_view line) {
    const auto space = line.find(' ');
    if (!line.starts_with(ours) || space == std::string_view::npos) return;
    if (const auto bytes = as_bytes(line.substr(space))) sum = sum.value_or(0) + *bytes;
  });
  return sum;
}

// Of all tiles; with one tile's unknown, it is.
std::optional<uint64_t> xe_total(Files& files, const Card& card) {
  std::optional<uint64_t> sum;
  for (uint32_t tile = 0; tile < kMaxTiles; ++tile) {
    const std::string folder = fmt::format("{}/tile{}", card.device, tile);
    if (!Files::exists(folder)) break;
    const auto bytes = read_bytes(files, folder + "/physical_vram_size_bytes");
    if (!bytes) return std::nullopt;
    sum = sum.value_or(0) + *bytes;
  }
  return sum;
}

DeviceMemory intel_memory(Files& files, const Card& card, const std::string& sys) {
  auto total = read_bytes(files, card.folder + "/lmem_total_bytes");
  const auto available = read_bytes(files, card.folder + "/lmem_avail_bytes");
  if (total && available && *available <= *total) return memory_of(total, *total - *available);
  if (!total && card.driver == Driver::kXe) total = xe_total(files, card);
  if (!total) total = capacity_of(files.read(sys + "/fs/cgroup/dmem.capacity"), card.pci_id);
  return memory_of(total, std::nullopt);
}

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void read_amd(Files& files, const Card& card, DeviceSample& sample) {
  sample.memory = amd_memory(files, card, "vram");
  sample.host_memory = amd_memory(files, card, "gtt");
  sample.busy_percent = at_most(as_number(files.read(card.device + "/gpu_busy_percent")), 100);
  sample.memory_busy_percent =
      at_most(as_number(files.read(card.device + "/mem_busy_percent")), 100);
  sample.core_mhz = current_mhz(files.read(card.device + "/pp_dpm_sclk"));
  sample.memory_mhz = current_mhz(files.read(card.device + "/pp_dpm_mclk"));
}

void read_intel(Files& files, const Card& card, const std::string& sys, DeviceSample& sample) {
  sample.memory = intel_memory(files, card, sys);
  const auto mhz =
      card.driver == Driver::kXe
          ? first_number(files, card.device, {"tile0/gt0/freq0/act_freq"})
          : first_number(files, card.folder, {"gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz"});
  sample.core_mhz = at_most(mhz, kMaxMhz);
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

std::optional<uint32_t> EnergyMeter::milliwatts(std::optional<uint64_t> microjoules,
                                                int64_t time_ns) {
  const auto before = std::exchange(microjoules_, microjoules);
  const int64_t before_ns = std::exchange(time_ns_, time_ns);
  if (!before || !microjoules || *microjoules < *before || time_ns <= before_ns)
    return std::nullopt;
  const double milliwatts =
      static_cast<double>(*microjoules - *before) * 1e6 / static_cast<double>(time_ns - before_ns);
  if (milliwatts > kMaxMilliwatts) return std::nullopt;
  return static_cast<uint32_t>(std::lround(milliwatts));
}

void read_sensors(Files& files, const Card& card, const std::string& sys, EnergyMeter& meter,
                  DeviceSample& sample) {
  if (card.driver == Driver::kAmdgpu) {
    read_amd(files, card, sample);
  } else {
    read_intel(files, card, sys, sample);
  }
  const auto hwmon = hwmon_of(files, card);
  if (!hwmon) return;
  const auto warmth = first_number(files, *hwmon, {"temp1_input", "temp2_input"});
  if (warmth) sample.celsius = at_most(*warmth / 1000, kMaxCelsius);
  const auto microwatts = first_number(files, *hwmon, {"power1_average", "power1_input"});
  if (microwatts) {
    sample.milliwatts = at_most(*microwatts / 1000, kMaxMilliwatts);
  } else if (card.driver != Driver::kAmdgpu) {
    sample.milliwatts = meter.milliwatts(
        first_above_zero(files, *hwmon, {"energy1_input", "energy2_input"}), now_ns());
  }
}

DeviceHealth read_health(Files& files, const Card& card) {
  DeviceHealth health;
  const auto hwmon = hwmon_of(files, card);
  for (uint32_t i = 1; hwmon && i <= kMaxTemperatures && !health.memory_celsius; ++i) {
    const std::string start = fmt::format("{}/temp{}_", *hwmon, i);
    const auto label = trimmed(files.read(start + "label"));
    if (label != "mem" && label != "vram") continue;
    if (const auto warmth = as_number(files.read(start + "input")))
      health.memory_celsius = at_most(*warmth / 1000, kMaxCelsius);
  }
  if (card.driver != Driver::kAmdgpu) return health;
  if (const DeviceMemory visible = amd_memory(files, card, "vis_vram"); visible.total_bytes)
    health.bar1 = visible;
  health.ecc_since_boot = read_ecc(files, card);
  health.retired_pages = read_bad_pages(files, card);
  return health;
}

std::optional<uint32_t> read_power_limit(Files& files, const Card& card) {
  const auto hwmon = hwmon_of(files, card);
  if (!hwmon) return std::nullopt;
  // Of the card; where that has none (xe), of the package.
  const auto microwatts =
      first_above_zero(files, *hwmon, {"power1_cap", "power1_max", "power2_cap", "power2_max"});
  return microwatts ? at_most(*microwatts / 1000, kMaxMilliwatts) : std::nullopt;
}

namespace {

// "0x00000001 : 0x00001000 : R": its number, its size, what became of it; 0: it is none.
char page_state_of(std::string_view line) {
  const auto colon = line.rfind(':');
  if (!line.starts_with("0x") || colon == std::string_view::npos) return 0;
  const std::string_view page_state = trimmed(line.substr(colon + 1));
  return page_state == "R" || page_state == "P" || page_state == "F" ? page_state.front() : '\0';
}

}  // namespace

EccCounts read_ecc(Files& files, const Card& card) {
  EccCounts counts;
  for (const char* name : {"umc_err_count", "aca_umc"}) {  // the second: MI300 and newer
    const std::string_view errors = files.read(card.device + "/ras/" + name);
    if (errors.empty()) continue;
    counts.corrected = as_number(value_of(errors, "ce", ':').value_or(""));
    counts.uncorrected = as_number(value_of(errors, "ue", ':').value_or(""));
    break;
  }
  return counts;
}

std::optional<RetiredPages> read_bad_pages(Files& files, const Card& card) {
  const auto list = files.read_whole(card.device + "/ras/gpu_vram_bad_pages");
  if (!list) return std::nullopt;
  RetiredPages pages{std::nullopt, std::nullopt, 0, false, false};
  bool is_understood = true;
  for_each_line(*list, [&](std::string_view line) {
    const char page_state = page_state_of(line);
    is_understood &= page_state != 0;
    if (page_state == 'R') ++*pages.of_any_cause;
    if (page_state == 'P') pages.is_pending = true;
    if (page_state == 'F') pages.has_failed = true;
  });
  return is_understood ? std::optional(pages) : std::nullopt;
}

}  // namespace vram::gpu::drm
