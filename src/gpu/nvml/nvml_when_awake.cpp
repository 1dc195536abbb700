#include "gpu/nvml/nvml_when_awake.hpp"

#include "base/result.hpp"
#include "base/text.hpp"
#include "gpu/drm/card.hpp"
#include "gpu/drm/files.hpp"
#include "gpu/nvml/nvml_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::gpu::nvml {

struct NvmlWhenAwake::State {
  State(std::string library_path, std::string sys_root)
      : library(std::move(library_path)), sys(std::move(sys_root)) {}

  // Opens or closes the library, as it must be now, and counts the devices.
  [[nodiscard]] Result<> refresh();
  [[nodiscard]] Result<> count_library();
  [[nodiscard]] bool has_new_device();
  [[nodiscard]] bool are_all_asleep();
  [[nodiscard]] bool is_any_asleep();
  void close();
  // May the library be asked for this device?
  [[nodiscard]] bool is_awake(uint32_t index);
  // Nothing: a device that the bus does not show, or it is not known which one it is.
  [[nodiscard]] const PciDevice* device_of(uint32_t index) const;
  [[nodiscard]] bool is_by_address() const;
  [[nodiscard]] DeviceIdentity sleeping(uint32_t index) const;
  [[nodiscard]] std::optional<uint32_t> numa_node_of(uint32_t index);

  std::string library;
  std::string sys;
  drm::Files files;
  std::vector<PciDevice> devices;
  std::optional<Nvml> nvml;  // nothing: all devices sleep, or it did not open
  std::optional<NvmlEvents> events;
  uint32_t samples = 0;  // since the library was opened, for events
  uint32_t bus_checks = 0;
  uint32_t count = 0;  // of the library's devices while it is open, else of the bus's
  std::map<uint32_t, std::string> pci_ids;      // as the library reported them since it was opened
  std::map<std::string, DeviceIdentity> known;  // by PCI id: of all that were ever awake
};

bool NvmlWhenAwake::State::are_all_asleep() {
  return !devices.empty() && std::ranges::all_of(devices, [&](const PciDevice& device) {
    return drm::is_asleep(files, device.folder);
  });
}

bool NvmlWhenAwake::State::is_any_asleep() {
  return std::ranges::any_of(
      devices, [&](const PciDevice& device) { return drm::is_asleep(files, device.folder); });
}

bool NvmlWhenAwake::State::has_new_device() {
  constexpr uint32_t kSamplesBetweenChecks = 8;
  if (++bus_checks % kSamplesBetweenChecks != 0) return false;
  const auto is_new = [&](const PciDevice& device) {
    return std::ranges::find(devices, device.pci_id, &PciDevice::pci_id) == devices.end();
  };
  return std::ranges::any_of(find_pci_devices(files, sys), is_new);
}

void NvmlWhenAwake::State::close() {
  events.reset();
  nvml.reset();
}

Result<> NvmlWhenAwake::State::refresh() {
  if (!nvml) {
    devices = find_pci_devices(files, sys);  // plugged in meanwhile, or taken away
  } else if (has_new_device()) {
    close();
    return fail(Code::kUnsupported,
                "a GPU came to the bus: {} is opened again, since it knows those alone that were "
                "there at its start",
                library);
  }
  if (are_all_asleep()) {
    close();
    count = static_cast<uint32_t>(devices.size());
    return {};
  }
  if (!nvml) {
    VRAM_TRY_ASSIGN(auto opened, Nvml::open(library));
    nvml.emplace(std::move(opened));
    samples = 0;
    pci_ids.clear();
  }
  return count_library();
}

Result<> NvmlWhenAwake::State::count_library() {
  VRAM_TRY_ASSIGN(const auto counted, nvml->device_count());
  if (count != counted) pci_ids.clear();  // they may have moved up
  count = counted;
  return {};
}

bool NvmlWhenAwake::State::is_by_address() const {
  return count == devices.size() && std::ranges::all_of(pci_ids, [&](const auto& reported) {
           return reported.first < devices.size() &&
                  devices[reported.first].pci_id == reported.second;
         });
}

const PciDevice* NvmlWhenAwake::State::device_of(uint32_t index) const {
  const auto reported = pci_ids.find(index);
  if (nvml && reported != pci_ids.end()) {
    const auto device = std::ranges::find(devices, reported->second, &PciDevice::pci_id);
    return device == devices.end() ? nullptr : &*device;
  }
  return index < devices.size() && (!nvml || is_by_address()) ? &devices[index] : nullptr;
}

bool NvmlWhenAwake::State::is_awake(uint32_t index) {
  if (!nvml) return false;
  const PciDevice* const device = device_of(index);
  return device == nullptr || !drm::is_asleep(files, device->folder);
}

DeviceIdentity NvmlWhenAwake::State::sleeping(uint32_t index) const {
  DeviceIdentity identity;
  if (const PciDevice* const device = device_of(index)) {
    if (const auto reported = known.find(device->pci_id); reported != known.end())
      identity = reported->second;
    identity.pci_id = device->pci_id;
    if (!identity.name && !device->chip.empty()) identity.name = "NVIDIA GPU " + device->chip;
  }
  identity.index = index;
  return identity;
}

// A negative one: the kernel knows of none that is nearer.
std::optional<uint32_t> NvmlWhenAwake::State::numa_node_of(uint32_t index) {
  const PciDevice* const device = device_of(index);
  if (device == nullptr) return std::nullopt;
  return drm::as_small_number(trimmed(files.read(device->folder + "/numa_node")));
}

NvmlWhenAwake::NvmlWhenAwake(std::unique_ptr<State> state) : state_(std::move(state)) {}
NvmlWhenAwake::NvmlWhenAwake(NvmlWhenAwake&& other) noexcept = default;
NvmlWhenAwake::~NvmlWhenAwake() = default;

Result<NvmlWhenAwake> NvmlWhenAwake::open(const std::string& library, const std::string& sys) {
  auto state = std::make_unique<State>(library, sys);
  VRAM_TRY(state->refresh());
  return NvmlWhenAwake(std::move(state));
}

Result<uint32_t> NvmlWhenAwake::device_count() const {
  VRAM_TRY(state_->refresh());
  return state_->count;
}

DeviceIdentity NvmlWhenAwake::identity(uint32_t index) const {
  if (!state_->is_awake(index)) return state_->sleeping(index);
  DeviceIdentity identity = state_->nvml->identity(index);
  if (identity.pci_id) {
    state_->pci_ids[index] = *identity.pci_id;
    identity.numa_node = state_->numa_node_of(index);
    state_->known[*identity.pci_id] = identity;
  }
  return identity;
}

DeviceHealth NvmlWhenAwake::health(uint32_t index) const {
  return state_->is_awake(index) ? state_->nvml->health(index) : DeviceHealth{};
}

DeviceSample NvmlWhenAwake::sample(uint32_t index) const {
  if (state_->is_awake(index)) return state_->nvml->sample(index);
  DeviceSample sample;
  sample.index = index;
  sample.is_asleep = true;
  return sample;
}

XidReport NvmlWhenAwake::xid_report() const {
  constexpr size_t kMaxEvents = 1000;  // at once: a storm may not keep anybody here
  constexpr uint32_t kRetrySamples = 10;
  State& state = *state_;
  if (!state.nvml || state.samples++ == 0) return {};
  if (!state.events && state.samples % kRetrySamples == 2 && !state.is_any_asleep()) {
    if (auto opened = NvmlEvents::open(state.library)) state.events.emplace(*std::move(opened));
  }
  if (!state.events) return {};
  XidReport report{state.events->watched(), {}};
  while (report.events.size() < kMaxEvents) {
    const auto event = state.events->wait(std::chrono::milliseconds(0));
    if (!event) state.events.reset();
    if (!event || !*event) break;
    report.events.push_back(**event);
  }
  return report;
}

namespace {

constexpr uint32_t kNvidia = 0x10de;
constexpr uint32_t kDisplay = 0x03;  // the class: graphics cards, and those without an output

// "0x10de"
std::optional<uint32_t> number_in(drm::Files& files, const std::string& path) {
  std::string_view text = trimmed(files.read(path));
  if (!text.starts_with("0x")) return std::nullopt;
  return drm::parse_number<uint32_t>(text.substr(2), 16);
}

bool is_address(std::string_view name) {
  return name.find_first_not_of("0123456789abcdef:.") == std::string_view::npos;
}

// What can't be read is not held against it.
bool is_of_another_driver(drm::Files& files, const std::string& folder) {
  const std::string_view uevent = files.read(folder + "/uevent");
  return !uevent.empty() && drm::value_of(uevent, "DRIVER", '=') != "nvidia";
}

bool is_gpu(drm::Files& files, const std::string& folder) {
  if (number_in(files, folder + "/vendor") != kNvidia) return false;
  const auto kind = number_in(files, folder + "/class");
  return kind && *kind >> 16U == kDisplay && !is_of_another_driver(files, folder);
}

}  // namespace

std::vector<PciDevice> find_pci_devices(drm::Files& files, const std::string& sys) {
  std::vector<PciDevice> devices;
  const std::string bus = sys + "/bus/pci/devices";
  for (const std::string& name : files.names_in(bus)) {
    const std::string folder = bus + "/" + name;
    if (!is_address(name) || !is_gpu(files, folder)) continue;
    const auto chip = number_in(files, folder + "/device");
    devices.push_back({name, folder, chip ? fmt::format("{:04x}:{:04x}", kNvidia, *chip) : ""});
  }
  return devices;
}

}  // namespace vram::gpu::nvml
