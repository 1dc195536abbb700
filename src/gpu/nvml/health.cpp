// query_health(): see health.hpp.
#include "gpu/nvml/health.hpp"

#include "gpu/nvml/cached_readings.hpp"
#include "gpu/nvml/nvml_api.hpp"

#include <array>

namespace vram::gpu::nvml {
namespace {

constexpr uint64_t kMaxCelsius = 250;

template <size_t count>
std::string word_for(const std::array<std::string_view, count>& words, uint64_t number) {
  if (number < count) return std::string(words[number]);
  return fmt::format("number {}", number);  // newer than this program
}

std::optional<std::string> compute_mode_of(const NvmlApi& api, nvmlDevice device) {
  static constexpr std::array<std::string_view, 4> kModes{"default", "exclusive thread",
                                                          "prohibited", "exclusive process"};
  const auto mode = query_first<unsigned>(api, {"nvmlDeviceGetComputeMode"}, device);
  return mode ? std::optional(word_for(kModes, *mode)) : std::nullopt;
}

EccCounts ecc_of(const NvmlApi& api, nvmlDevice device, uint32_t since) {
  const auto count = [&](uint32_t kind) {
    return at_most(query_first<uint64_t>(api, {"nvmlDeviceGetTotalEccErrors"}, device, kind, since),
                   kNotAvailable - 1);
  };
  return {count(kEccCorrected), count(kEccUncorrected)};
}

std::optional<RemappedRows> remapped_rows_of(const NvmlApi& api, nvmlDevice device) {
  RemappedRows rows;
  unsigned is_pending = 0;
  unsigned has_failed = 0;
  if (api.device_get_remapped_rows == nullptr ||
      api.device_get_remapped_rows(device, &rows.corrected, &rows.uncorrected, &is_pending,
                                   &has_failed) != kSuccess)
    return std::nullopt;
  rows.is_pending = is_pending != 0;
  rows.has_failed = has_failed != 0;
  return rows;
}

// Without room for their addresses the library answers with their number alone.
std::optional<uint32_t> retired_pages_of(const NvmlApi& api, nvmlDevice device, uint32_t cause) {
  constexpr unsigned kMaxPages = 1U << 20U;
  unsigned count = 0;
  uint64_t unused = 0;  // some documents allow no null, even for no room
  NvmlReturn answer = kFunctionNotFound;
  if (api.device_get_retired_pages_v2 != nullptr)
    answer = api.device_get_retired_pages_v2(device, cause, &count, &unused, &unused);
  if (is_of_other_version(answer) && api.device_get_retired_pages_v1 != nullptr) {
    count = 0;
    answer = api.device_get_retired_pages_v1(device, cause, &count, &unused);
  }
  if (answer != kSuccess && answer != kInsufficientSize) return std::nullopt;
  return at_most(std::optional(count), kMaxPages);
}

// Ampere and newer have remapped rows instead.
std::optional<RetiredPages> retired_pages_of(const NvmlApi& api, nvmlDevice device) {
  RetiredPages pages;
  pages.corrected = retired_pages_of(api, device, kRetiredForCorrected);
  pages.uncorrected = retired_pages_of(api, device, kRetiredForUncorrected);
  const auto is_pending =
      at_most(query_first<unsigned>(api, {"nvmlDeviceGetRetiredPagesPendingStatus"}, device), 1U);
  if (is_pending) pages.is_pending = *is_pending == 1;
  const bool is_any_known = pages.corrected || pages.uncorrected || pages.is_pending;
  return is_any_known ? std::optional(pages) : std::nullopt;
}

std::optional<DeviceMemory> bar1_of(const NvmlApi& api, nvmlDevice device) {
  const auto read = query_first<MemoryV1>(api, {"nvmlDeviceGetBAR1MemoryInfo"}, device);
  if (!read) return std::nullopt;
  const DeviceMemory memory = known_memory(*read);
  return memory.total_bytes ? std::optional(memory) : std::nullopt;
}

void query_health_fields(const NvmlApi& api, nvmlDevice device, DeviceHealth& health) {
  std::array fields{field(kFieldMemoryCelsius), field(kFieldRecoveryAction)};
  query_fields(api, device, fields);
  if (const auto celsius = at_most(known_value(fields[0]), kMaxCelsius))
    health.memory_celsius = static_cast<uint32_t>(*celsius);
  if (const auto action = known_value(fields[1]))
    health.recovery_action = word_for(kRecoveryActions, *action);
}

}  // namespace

DeviceHealth query_health(const NvmlApi& api, nvmlDevice device) {
  DeviceHealth health;
  health.bar1 = bar1_of(api, device);
  health.ecc_since_boot = ecc_of(api, device, kEccSinceBoot);
  health.ecc_ever = ecc_of(api, device, kEccEver);
  health.remapped_rows = remapped_rows_of(api, device);
  health.retired_pages = retired_pages_of(api, device);
  query_health_fields(api, device, health);
  health.compute_mode = compute_mode_of(api, device);
  const auto persistence =
      at_most(query_first<unsigned>(api, {"nvmlDeviceGetPersistenceMode"}, device), 1U);
  if (persistence) health.is_persistent = *persistence == 1;
  health.is_mig = query_is_mig(api, device);
  if (health.is_mig.value_or(false)) {
    DeviceMemory whole;
    (void)query_memory(api, device, whole);
    health.mig_instances = query_mig_instances(api, device, whole.total_bytes);
  }
  return health;
}

namespace {

std::optional<std::string> pci_id_of(const NvmlApi& api, nvmlDevice device) {
  const auto pci = query_first<PciInfo>(
      api, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"}, device);
  if (!pci || pci->bus > 0xFF || pci->device > 0x1F) return std::nullopt;
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci->domain, pci->bus, pci->device);
}

// The library writes the major number first.
std::optional<std::string> compute_capability_of(const NvmlApi& api, nvmlDevice device) {
  int major = 0;
  const auto minor = query_first<int>(api, {"nvmlDeviceGetCudaComputeCapability"}, device, &major);
  const auto is_possible = [](int number) { return number >= 0 && number < 100; };
  if (!minor || major == 0 || !is_possible(major) || !is_possible(*minor)) return std::nullopt;
  return fmt::format("{}.{}", major, *minor);
}

}  // namespace

DeviceIdentity query_identity(const NvmlApi& api, nvmlDevice device) {
  DeviceIdentity identity;
  identity.name = query_text(api.device_get_name, device);
  identity.uuid = query_text(api.device_get_uuid, device);
  identity.pci_id = pci_id_of(api, device);
  identity.driver = query_text(api.system_get_driver);
  identity.compute_capability = compute_capability_of(api, device);
  identity.power_limit_milliwatts = at_most(
      query_first<unsigned>(
          api, {"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"}, device),
      kMaxMilliwatts);
  return identity;
}

}  // namespace vram::gpu::nvml
