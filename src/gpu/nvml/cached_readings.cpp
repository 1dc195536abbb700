#include "gpu/nvml/cached_readings.hpp"

#include "gpu/nvml/nvml_api.hpp"
#include "gpu/nvml/process_list.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace vram::gpu::nvml {
namespace {

bool has_functions(const NvmlApi& api) {
  return api.gpm_query_support != nullptr && api.gpm_sample_alloc != nullptr &&
         api.gpm_sample_free != nullptr && api.gpm_sample_get != nullptr &&
         api.gpm_metrics_get != nullptr;
}

bool is_supported(const NvmlApi& api, nvmlDevice device) {
  GpmSupport support{kGpmSupportVersion, 0};
  return api.gpm_query_support(device, &support) == kSuccess && support.is_supported == 1;
}

// Not a number fails every comparison.
std::optional<double> up_to(double most, const GpmMetric& metric) {
  const bool is_possible = metric.result == kSuccess && metric.value >= 0 && metric.value <= most;
  return is_possible ? std::optional(metric.value) : std::nullopt;
}

std::optional<uint32_t> percent_of(const GpmMetric& metric) {
  constexpr double kMax = 100.49;  // what rounding makes 100
  const auto percent = up_to(kMax, metric);
  return percent ? std::optional(static_cast<uint32_t>(std::lround(*percent))) : std::nullopt;
}

std::optional<uint64_t> bytes_of(const GpmMetric& metric) {
  constexpr double kMib = 1024 * 1024;
  const auto mib = up_to(static_cast<double>(kMaxBytesPerSecond) / kMib, metric);
  return mib ? std::optional(static_cast<uint64_t>(std::llround(*mib * kMib))) : std::nullopt;
}

GpmFigures figures_of(const GpmMetrics& metrics) {
  return {percent_of(metrics.metrics[0]), bytes_of(metrics.metrics[1]),
          bytes_of(metrics.metrics[2]), bytes_of(metrics.metrics[3]), bytes_of(metrics.metrics[4])};
}

constexpr uint32_t kMaxCoreCelsius = 250;
constexpr uint32_t kMaxMhz = 100'000;

using Processes = std::vector<DeviceProcess>;
enum Figure : unsigned {
  kCelsius,
  kCore,
  kMemoryClock,
  kThrottle,
  kPower,
  kMps,
  kParts,
  kBusyProcesses,
  kGpmTake,
  kGpmRead,
  kFigures
};

// What has to follow each other (a sample of GPM and what it says) does so in one turn.
constexpr std::array<std::array<Figure, 3>, 4> kTurns{{{kMps, kParts, kCelsius},
                                                       {kGpmTake, kGpmRead, kBusyProcesses},
                                                       {kCore, kMemoryClock, kThrottle},
                                                       {kPower, kCelsius, kBusyProcesses}}};

std::optional<uint32_t> celsius_of(const NvmlApi& api, nvmlDevice device) {
  unsigned celsius = 0;
  NvmlReturn answer = api.device_get_temperature == nullptr
                          ? kFunctionNotFound
                          : api.device_get_temperature(device, 0, &celsius);
  if (is_of_other_version(answer) && api.device_get_temperature_v != nullptr) {
    TemperatureV1 newer{kTemperatureV1Version, 0, 0};
    answer = api.device_get_temperature_v(device, &newer);
    celsius = static_cast<unsigned>(newer.celsius);  // below zero: too much
  }
  return answer == kSuccess ? at_most(std::optional(celsius), kMaxCoreCelsius) : std::nullopt;
}

std::optional<std::vector<std::string>> throttle_reasons_of(const NvmlApi& api, nvmlDevice device) {
  const auto bits = query<uint64_t>(api.device_get_throttle_reasons, device);
  if (!bits || *bits == kNotAvailable) return std::nullopt;
  std::vector<std::string> reasons;
  // The first bit is no reason: with nothing to do the clocks go down.
  for (unsigned bit = 1; bit < 64; ++bit) {
    if ((*bits >> bit & 1U) == 0) continue;
    reasons.push_back(bit <= kThrottleReasons.size() ? std::string(kThrottleReasons.at(bit - 1))
                                                     : fmt::format("reason {}", bit));
  }
  return reasons;
}

// Clients of MPS are in the compute list, too, with most drivers.
void query_mps(const NvmlApi& api, const DeviceSample& sample, CachedReadings& cached) {
  const Processes listed = sample.processes.value_or(Processes{});
  cached.mps.clear();
  cached.mps_listed.clear();
  for (const DeviceProcess& client :
       list_processes(api, ProcessKind::kMps, cached.device).value_or(Processes{})) {
    const bool is_listed = std::ranges::any_of(
        listed, [&](const DeviceProcess& process) { return is_same(process, client); });
    (is_listed ? cached.mps_listed : cached.mps).push_back(client);
  }
}

std::vector<MigHandle> parts_of(const NvmlApi& api, nvmlDevice device, const DeviceSample& sample) {
  const bool has_processes = sample.processes && !sample.processes->empty();
  if (has_processes || sample.busy_percent) return {};  // MIG's devices have no such figure
  if (!query_is_mig(api, device).value_or(false)) return {};
  return query_mig_handles(api, device);
}

void query_busy_processes(const NvmlApi& api, const DeviceSample& sample, CachedReadings& cached) {
  const bool has_processes = sample.processes && !sample.processes->empty();
  cached.percent_by_pid.clear();
  if (has_processes || !cached.mps.empty() || !cached.parts.empty())
    cached.percent_by_pid = query_percent_by_pid(api, cached.device);
}

std::optional<uint32_t> mhz_of(const NvmlApi& api, nvmlDevice device, unsigned clock) {
  return at_most(query<unsigned>(api.device_get_clock, device, clock), kMaxMhz);
}

void query_figure(const NvmlApi& api, Figure figure, const DeviceSample& sample,
                  CachedReadings& cached) {
  const nvmlDevice device = cached.device;
  switch (figure) {
    case kCelsius:
      cached.celsius = celsius_of(api, device);
      break;
    case kCore:
      cached.core_mhz = mhz_of(api, device, kClockGraphics);
      break;
    case kMemoryClock:
      cached.memory_mhz = mhz_of(api, device, kClockMemory);
      break;
    case kThrottle:
      cached.throttle_reasons = throttle_reasons_of(api, device);
      break;
    case kPower:
      cached.milliwatts.reset();
      if (!sample.milliwatts)
        cached.milliwatts = at_most(query<unsigned>(api.device_get_power, device), kMaxMilliwatts);
      break;
    case kMps:
      query_mps(api, sample, cached);
      break;
    case kParts:
      cached.parts = parts_of(api, device, sample);
      break;
    case kBusyProcesses:
      query_busy_processes(api, sample, cached);
      break;
    case kGpmTake:
      if (cached.gpm && !cached.gpm->take()) cached.gpm.reset();
      break;
    case kGpmRead:
    case kFigures:
      cached.traffic = cached.gpm ? cached.gpm->read() : GpmFigures{};
      break;
  }
}

}  // namespace

std::shared_ptr<Gpm> Gpm::open(const NvmlApi& api, nvmlDevice device) {
  if (!has_functions(api) || !is_supported(api, device)) return nullptr;
  const std::shared_ptr<Gpm> gpm(new Gpm(api, device));
  for (Sample& sample : gpm->samples_) {
    if (api.gpm_sample_alloc(&sample.buffer) != kSuccess || sample.buffer == nullptr) {
      sample.buffer = nullptr;
      return nullptr;
    }
  }
  return gpm->take() ? gpm : nullptr;
}

Gpm::~Gpm() {
  for (const Sample& sample : samples_) {
    if (sample.buffer != nullptr) (void)api_.gpm_sample_free(sample.buffer);
  }
}

bool Gpm::take() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return true;
  std::swap(samples_[0], samples_[1]);
  const NvmlReturn answer = api_.gpm_sample_get(device_, samples_[0].buffer);
  samples_[0].is_good = answer == kSuccess;
  return answer != kNotSupported && answer != kNoPermission && !is_of_other_version(answer);
}

GpmFigures Gpm::read() {
  static constexpr std::array kAsked{kGpmMemoryBandwidthPercent, kGpmPcieSentMib,
                                     kGpmPcieReceivedMib, kGpmNvlinkSentMib, kGpmNvlinkReceivedMib};
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return {};
  if (!samples_[0].is_good || !samples_[1].is_good) return {};
  GpmMetrics metrics{};
  metrics.version = kGpmMetricsVersion;
  metrics.count = kAsked.size();
  metrics.older = samples_[1].buffer;
  metrics.newer = samples_[0].buffer;
  for (size_t i = 0; i < kAsked.size(); ++i) {
    metrics.metrics[i].metric = kAsked.at(i);
    metrics.metrics[i].result = kNotSupported;
  }
  return api_.gpm_metrics_get(&metrics) == kSuccess ? figures_of(metrics) : GpmFigures{};
}

void query_in_turn(const NvmlApi& api, const DeviceSample& sample, CachedReadings& cached) {
  const auto now = std::chrono::steady_clock::now();
  const bool is_first = !cached.sampled;
  if (is_first || now - *cached.sampled > kPause) {
    for (unsigned each = 0; each < kFigures; ++each)
      query_figure(api, static_cast<Figure>(each), sample, cached);
  } else {
    const auto& turn = kTurns.at(cached.turn);
    // The memory of a client that no other list has is as new as that of the others.
    if (!cached.mps.empty() && std::ranges::count(turn, kMps) == 0)
      query_figure(api, kMps, sample, cached);
    for (const Figure figure : turn) query_figure(api, figure, sample, cached);
    cached.turn = (cached.turn + 1) % kTurns.size();
  }
  if (!is_first && !cached.is_gpm_queried) {
    cached.is_gpm_queried = true;
    cached.gpm = Gpm::open(api, cached.device);
  }
  cached.sampled = now;
}

namespace {

constexpr unsigned kMaxParts = 64;  // devices have up to 7; a bound for what a driver may say

// "NVIDIA H200 MIG 1g.18gb" names the profile last.
std::optional<std::string> profile_in(const std::optional<std::string>& name) {
  constexpr std::string_view kMark = "MIG ";
  const size_t at = name ? name->rfind(kMark) : std::string::npos;
  if (at == std::string::npos || at + kMark.size() == name->size()) return std::nullopt;
  return name->substr(at + kMark.size());
}

DeviceMemory memory_of(const NvmlApi& api, nvmlDevice device, std::optional<uint64_t> limit) {
  DeviceMemory memory;
  (void)query_memory(api, device, memory);
  return limit && memory.total_bytes > limit ? DeviceMemory{} : memory;
}

}  // namespace

std::optional<bool> query_is_mig(const NvmlApi& api, nvmlDevice device) {
  unsigned now = 0;
  unsigned after_reset = 0;
  if (api.device_get_mig_mode == nullptr ||
      api.device_get_mig_mode(device, &now, &after_reset) != kSuccess || now > 1)
    return std::nullopt;
  return now == 1;
}

std::vector<MigHandle> query_mig_handles(const NvmlApi& api, nvmlDevice device) {
  std::vector<MigHandle> handles;
  const auto count = query<unsigned>(api.device_get_max_mig_count, device).value_or(0);
  for (unsigned index = 0; index < std::min(count, kMaxParts); ++index) {
    const auto part = query<nvmlDevice>(api.device_get_mig_handle, device, index);
    if (!part || *part == nullptr) continue;  // the numbers have holes
    const auto gpu_instance = query<unsigned>(api.device_get_gpu_instance, *part);
    const auto compute_instance = query<unsigned>(api.device_get_compute_instance, *part);
    if (gpu_instance && compute_instance)
      handles.push_back({*part, *gpu_instance, *compute_instance});
  }
  return handles;
}

std::vector<MigInstance> query_mig_instances(const NvmlApi& api, nvmlDevice device,
                                             std::optional<uint64_t> device_bytes) {
  std::vector<MigInstance> instances;
  for (const MigHandle& handle : query_mig_handles(api, device)) {
    MigInstance instance;
    instance.gpu_instance = handle.gpu_instance;
    instance.compute_instance = handle.compute_instance;
    instance.uuid = query_text(api.device_get_uuid, handle.device);
    instance.profile = profile_in(query_text(api.device_get_name, handle.device));
    const auto same = std::ranges::find(instances, handle.gpu_instance, &MigInstance::gpu_instance);
    instance.memory =
        same != instances.end() ? same->memory : memory_of(api, handle.device, device_bytes);
    instances.push_back(std::move(instance));
  }
  return instances;
}

}  // namespace vram::gpu::nvml
