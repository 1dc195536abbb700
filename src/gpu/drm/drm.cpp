#include "gpu/drm/drm.hpp"

#include "base/environment.hpp"
#include "base/text.hpp"
#include "gpu/drm/card.hpp"
#include "gpu/drm/files.hpp"
#include "gpu/drm/processes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace vram::gpu::drm {
namespace {

constexpr size_t kMaxNameLength = 96;

// A line of text that another program wrote, made printable.
std::optional<std::string> text_in(std::string_view contents) {
  const std::string_view text = trimmed(contents.substr(0, contents.find('\n')));
  if (text.empty()) return std::nullopt;
  return printable(text.substr(0, kMaxNameLength));
}

// The module's own version; of one that came with the kernel, the kernel's.
std::optional<std::string> driver_version(Files& files, const Roots& roots, Driver driver) {
  const auto own =
      text_in(files.read(fmt::format("{}/module/{}/version", roots.sys, name_of(driver))));
  return own ? own : text_in(files.read(roots.proc + "/sys/kernel/osrelease"));
}

uint64_t most_of(std::optional<uint64_t> total) { return total.value_or(kMaxBytesOfDevice); }

void forget_above(std::optional<uint64_t> limit, std::optional<uint64_t>& bytes) {
  if (bytes && *bytes > most_of(limit)) bytes.reset();
}

template <typename Value>
void fill(std::optional<Value>& open, const std::optional<Value>& known) {
  if (!open) open = known;
}

}  // namespace

Roots machine_roots() {
  const std::string root = trusted_environment("VRAM_DRM_ROOT");
  return {root + "/sys", root + "/proc"};
}

struct Drm::State {
  struct Device {
    Card card;
    EnergyMeter meter;
    uint64_t tick = 0;  // in which its processes were last reported
  };

  State(Roots at, OpenAmdExtras open)
      : roots(std::move(at)),
        open_extras(std::move(open)),
        devices(devices_of(find_cards(files, roots.sys))),
        processes(roots.proc, open_kfd()) {
    add_extras();
  }

  [[nodiscard]] static std::vector<Device> devices_of(std::vector<Card> cards) {
    std::vector<Device> found;
    for (Card& card : cards) found.push_back({std::move(card), {}, 0});
    return found;
  }

  void add_extras() {
    const bool has_amd = std::ranges::any_of(
        devices, [](const Device& device) { return device.card.driver == Driver::kAmdgpu; });
    if (open_extras && has_amd && !extras) extras = open_extras(roots);
  }

  // A driver may be loaded, and a card plugged in, long after this began. What processes did until
  // then is forgotten: places of devices change.
  void refresh_cards() {
    constexpr uint64_t kCallsBetween = 8;
    if (!devices.empty() && ++counts % kCallsBetween != 0) return;
    std::vector<Card> cards = find_cards(files, roots.sys);
    const auto has = [](const auto& all, const std::string& pci_id, auto pci_id_of) {
      return std::ranges::find(all, pci_id, pci_id_of) != all.end();
    };
    const auto pci_id_of_device = [](const Device& device) { return device.card.pci_id; };
    if (std::ranges::all_of(
            cards, [&](const Card& card) { return has(devices, card.pci_id, pci_id_of_device); }))
      return;
    for (const Device& device : devices) {
      if (!has(cards, device.card.pci_id, &Card::pci_id)) cards.push_back(device.card);
    }
    std::ranges::sort(cards, {}, &Card::pci_id);
    devices = devices_of(std::move(cards));
    processes = Processes(roots.proc, open_kfd());
    tick = 0;
    add_extras();
  }

  // The cards learn the nodes of their parts from it.
  [[nodiscard]] Kfd open_kfd() {
    std::vector<std::string> places;
    for (const Device& device : devices) places.push_back(device.card.pci_id);
    Kfd kfd = Kfd::open(files, roots.sys, places);
    for (const Kfd::Gpu& gpu : kfd.gpus()) {
      const auto at = std::ranges::find(places, gpu.pci_id) - places.begin();
      if (gpu.render_minor)
        devices[static_cast<size_t>(at)].card.nodes.push_back(
            fmt::format("renderD{}", *gpu.render_minor));
    }
    return kfd;
  }

  [[nodiscard]] AmdExtra extra_of(const Card& card) const {
    return extras && card.driver == Driver::kAmdgpu ? extras->of(card.pci_id) : AmdExtra{};
  }

  [[nodiscard]] AwakeDevices awake_devices() {
    AwakeDevices awake;
    for (uint32_t i = 0; i < devices.size(); ++i) {
      const Card& card = devices[i].card;
      if (is_asleep(files, card)) continue;
      awake.by_pci_id.emplace(card.pci_id, i);
      for (const std::string& node : card.nodes) awake.by_node.emplace(node, i);
    }
    return awake;
  }

  [[nodiscard]] std::vector<DeviceProcess> processes_of(uint32_t index,
                                                        const DeviceSample& sample) {
    Device& device = devices[index];
    if (device.tick == tick) {
      ++tick;
      processes.tick(files, awake_devices());
    }
    device.tick = tick;
    auto found = processes.of(index, most_of(sample.memory.total_bytes));
    for (DeviceProcess& process : found) {
      forget_above(sample.memory.total_bytes, process.used_bytes);
      forget_above(sample.host_memory.total_bytes, process.host_bytes);
    }
    return found;
  }

  std::mutex mutex;
  Files files;
  Roots roots;
  OpenAmdExtras open_extras;
  std::vector<Device> devices;
  Processes processes;
  uint64_t tick = 0;
  uint64_t counts = 0;                // of the devices
  std::unique_ptr<AmdExtras> extras;  // null: there are none
};

Drm::Drm(std::unique_ptr<State> state) : state_(std::move(state)) {}
Drm::Drm(Drm&& other) noexcept = default;
Drm& Drm::operator=(Drm&& other) noexcept = default;
Drm::~Drm() = default;

Drm Drm::open(Roots roots, const OpenAmdExtras& open_extras) {
  return Drm(std::make_unique<State>(std::move(roots), open_extras));
}

Result<uint32_t> Drm::device_count() const {
  const std::lock_guard lock(state_->mutex);
  state_->refresh_cards();
  return static_cast<uint32_t>(state_->devices.size());
}

DeviceIdentity Drm::identity(uint32_t index) const {
  const std::lock_guard lock(state_->mutex);
  DeviceIdentity identity;
  identity.index = index;
  if (index >= state_->devices.size()) return identity;
  Files& files = state_->files;
  const Card& card = state_->devices[index].card;
  const bool is_amd = card.driver == Driver::kAmdgpu;
  identity.vendor = is_amd ? Vendor::kAmd : Vendor::kIntel;
  identity.pci_id = card.pci_id;
  if (card.chip) identity.name = fmt::format("{} GPU {}", is_amd ? "AMD" : "Intel", *card.chip);
  if (is_asleep(files, card)) return identity;
  auto name = text_in(files.read(card.device + "/product_name"));
  if (!name) name = text_in(state_->extra_of(card).name.value_or(""));
  if (name) identity.name = name;
  identity.uuid = text_in(files.read(card.device + "/unique_id"));
  identity.driver = driver_version(files, state_->roots, card.driver);
  identity.power_limit_milliwatts = read_power_limit(files, card);
  identity.numa_node = as_small_number(trimmed(files.read(card.device + "/numa_node")));
  return identity;
}

DeviceHealth Drm::health(uint32_t index) const {
  const std::lock_guard lock(state_->mutex);
  if (index >= state_->devices.size()) return {};
  const Card& card = state_->devices[index].card;
  if (is_asleep(state_->files, card)) return {};
  DeviceHealth health = read_health(state_->files, card);
  const AmdExtra extra = state_->extra_of(card);
  fill(health.ecc_since_boot.corrected, extra.ecc_since_boot.corrected);
  fill(health.ecc_since_boot.uncorrected, extra.ecc_since_boot.uncorrected);
  fill(health.retired_pages, extra.retired_pages);
  return health;
}

DeviceSample Drm::sample(uint32_t index) const {
  const std::lock_guard lock(state_->mutex);
  DeviceSample sample;
  sample.index = index;
  if (index >= state_->devices.size()) {
    sample.trouble = trf("no device {}: there are {}", index, state_->devices.size());
    return sample;
  }
  Files& files = state_->files;
  State::Device& device = state_->devices[index];
  sample.is_asleep = is_asleep(files, device.card);
  if (sample.is_asleep) return sample;
  if (!is_there(files, device.card)) {
    sample.trouble = trf("{} no longer has {}: the driver released it, or it is lost",
                         name_of(device.card.driver), device.card.pci_id);
    return sample;
  }
  read_sensors(files, device.card, state_->roots.sys, device.meter, sample);
  sample.processes = state_->processes_of(index, sample);
  return sample;
}

uint64_t Drm::files_opened() const {
  const std::lock_guard lock(state_->mutex);
  return state_->files.opened();
}

}  // namespace vram::gpu::drm
