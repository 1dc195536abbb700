#include "gpu/nvml/nvml.hpp"

#include "base/environment.hpp"
#include "base/result.hpp"
#include "gpu/nvml/health.hpp"
#include "gpu/nvml/nvml_api.hpp"
#include "gpu/nvml/process_list.hpp"
#include "gpu/telemetry.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <utility>

namespace vram::gpu::nvml {
namespace {

std::string_view advice_for(NvmlReturn error) {
  switch (error) {
    case kDriverNotLoaded:
      return tr("load NVIDIA's kernel module, or run on a machine with a GPU");
    case kLibRmVersionMismatch:
      return tr(
          "the library and the kernel module have different versions: reboot, or reinstall the "
          "driver");
    case kOperatingSystem:
    case kUnknown:
      return tr("in a container the devices may have been taken away: start it again");
    default:
      return tr("run nvidia-smi to see whether the driver works at all");
  }
}

}  // namespace

std::string Nvml::library() {
  std::string named = trusted_environment("VRAM_NVML");
  return named.empty() ? kLibrary : named;
}

Result<Nvml> Nvml::open(const std::string& path) {
  VRAM_TRY_ASSIGN(const auto api, NvmlApi::load(path));
  if (const NvmlReturn result = api.init(); result != kSuccess) {
    return fail(result == kDriverNotLoaded ? Code::kNotFound : Code::kUnsupported,
                "expected {} to start, found that nvmlInit answers {}: {}", path,
                api.name_of(result), advice_for(result));
  }
  return Nvml(api);
}

Nvml::~Nvml() {
  if (!memory_) return;
  memory_->devices.clear();  // gives back what the library lent
  (void)api_.shutdown();
}

Result<uint32_t> Nvml::device_count() const {
  unsigned count = 0;
  if (const NvmlReturn result = api_.device_get_count(&count); result != kSuccess) {
    return fail(Code::kUnsupported,
                "expected the number of GPUs, found that nvmlDeviceGetCount answers {}: {}",
                api_.name_of(result), advice_for(result));
  }
  if (count > kMaxDevices) {
    return fail(Code::kUnsupported, "expected at most {} GPUs, found that the driver counts {}: {}",
                kMaxDevices, count, advice_for(kUnknown));
  }
  return count;
}

DeviceIdentity Nvml::identity(uint32_t index) const {
  CachedReadings cached;
  DeviceIdentity identity;
  if (find(index, cached) == kSuccess) identity = query_identity(api_, cached.device);
  identity.index = index;
  return identity;
}

DeviceHealth Nvml::health(uint32_t index) const {
  CachedReadings cached;
  return find(index, cached) == kSuccess ? query_health(api_, cached.device) : DeviceHealth{};
}

DeviceSample Nvml::sample(uint32_t index) const {
  CachedReadings cached;
  DeviceSample sample;
  NvmlReturn answer = find(index, cached);
  if (answer == kSuccess) answer = take_sample(api_, cached, sample);
  if (answer == kSuccess) {
    keep(index, std::move(cached));
  } else {
    forget(index);
    sample = {};
    sample.trouble = api_.name_of(answer);
  }
  sample.index = index;
  return sample;
}

NvmlReturn Nvml::find(uint32_t index, CachedReadings& cached) const {
  {
    const std::lock_guard lock(memory_->mutex);
    if (const auto known = memory_->devices.find(index); known != memory_->devices.end())
      cached = known->second;
  }
  if (cached.device != nullptr) return kSuccess;
  const NvmlReturn answer = api_.device_get_handle(index, &cached.device);
  if (answer == kSuccess && cached.device == nullptr) return kUnknown;
  if (answer == kSuccess) keep(index, cached);
  return answer;
}

void Nvml::keep(uint32_t index, CachedReadings cached) const {
  const std::lock_guard lock(memory_->mutex);
  std::swap(memory_->devices[index], cached);  // what it was may call the driver when it ends
}

void Nvml::forget(uint32_t index) const {
  decltype(memory_->devices)::node_type gone;  // ends after the lock, as in keep()
  const std::lock_guard lock(memory_->mutex);
  gone = memory_->devices.extract(index);
}

namespace {

using Processes = std::vector<DeviceProcess>;

// A device of which not even the memory is known, for one of these reasons, can't be asked at all.
// What is unknown or impossible for one function alone is NVML's other answers.
bool is_out_of_reach(NvmlReturn answer) {
  static constexpr std::array kAnswers{kUninitialized, kInvalidArgument,     kDriverNotLoaded,
                                       kGpuIsLost,     kResetRequired,       kOperatingSystem,
                                       kUnknown,       kLibRmVersionMismatch};
  return std::ranges::find(kAnswers, answer) != kAnswers.end();
}

// Of any function's answers these alone are about the whole device: WSL, for one, answers
// kUnknown for a single figure.
bool is_lost(NvmlReturn answer) { return answer == kGpuIsLost || answer == kResetRequired; }

NvmlReturn query_busy(const NvmlApi& api, nvmlDevice device, DeviceSample& sample) {
  if (api.device_get_utilization == nullptr) return kFunctionNotFound;
  Utilization busy{};
  const NvmlReturn answer = api.device_get_utilization(device, &busy);
  if (answer != kSuccess) return answer;
  sample.busy_percent = at_most(std::optional(busy.gpu_percent), 100U);
  sample.memory_busy_percent = at_most(std::optional(busy.memory_percent), 100U);
  return answer;
}

// PCIe's counters are the dearest fields (77 us each on an H200 with driver 580), and there they
// have but 32 bits.
void query_traffic_and_power(const NvmlApi& api, CachedReadings& cached, DeviceSample& sample) {
  constexpr uint64_t kKib = 1024;
  std::array fields{field(kFieldNvlinkSentKib, kAllLinks),
                    field(kFieldNvlinkReceivedKib, kAllLinks), field(kFieldPowerNow),
                    field(kFieldPcieSentBytes), field(kFieldPcieReceivedBytes)};
  constexpr size_t kWithoutPcie = 3;
  const std::span all(fields);
  query_fields(api, cached.device, cached.has_narrow_counters ? all.first(kWithoutPcie) : all);
  if (const auto kib = at_most(known_counter(fields[0]), kNotAvailable / kKib))
    sample.nvlink_sent_bytes = *kib * kKib;
  if (const auto kib = at_most(known_counter(fields[1]), kNotAvailable / kKib))
    sample.nvlink_received_bytes = *kib * kKib;
  if (const auto power = at_most(known_value(fields[2]), uint64_t{kMaxMilliwatts}))
    sample.milliwatts = static_cast<uint32_t>(*power);
  sample.pcie_sent_bytes = known_counter(fields[3]);
  sample.pcie_received_bytes = known_counter(fields[4]);
  cached.has_narrow_counters |= is_narrow(fields[3]) || is_narrow(fields[4]);
}

void append(std::optional<Processes>& all, std::optional<Processes> more) {
  if (!more) return;
  if (!all) all.emplace();
  all->insert(all->end(), std::make_move_iterator(more->begin()),
              std::make_move_iterator(more->end()));
}

void add_processes_of_parts(const NvmlApi& api, const CachedReadings& cached,
                            DeviceSample& sample) {
  if (sample.processes && !sample.processes->empty()) return;
  for (const MigHandle& part : cached.parts) {
    auto processes = list_processes(api, ProcessKind::kCompute, part.device);
    if (!processes) continue;  // partitioned again: they are found in their turn
    for (DeviceProcess& process : *processes) {
      process.gpu_instance = part.gpu_instance;
      process.compute_instance = part.compute_instance;
    }
    append(sample.processes, std::move(processes));
  }
}

void mark_clients_of_mps(CachedReadings& cached, Processes& processes) {
  std::erase_if(cached.mps_listed, [&](const DeviceProcess& client) {
    const auto same = std::ranges::find_if(
        processes, [&](const DeviceProcess& process) { return is_same(process, client); });
    if (same != processes.end()) same->is_mps = true;
    return same == processes.end();
  });
}

// The driver knows processes by pid alone: who is gone takes the figure along.
void add_percents(CachedReadings& cached, Processes& processes) {
  std::erase_if(cached.percent_by_pid, [&](const auto& known) {
    return !std::ranges::binary_search(processes, known.first, {}, &DeviceProcess::pid);
  });
  for (DeviceProcess& process : processes) {
    const auto known = cached.percent_by_pid.find(process.pid);
    if (known != cached.percent_by_pid.end()) process.busy_percent = known->second;
  }
}

// The lists that are asked for together with the ones that are kept.
void complete_processes(const NvmlApi& api, CachedReadings& cached, DeviceSample& sample) {
  add_processes_of_parts(api, cached, sample);
  if (!cached.mps.empty()) append(sample.processes, cached.mps);
  if (!sample.processes) return;
  sample.processes = merge_processes(*std::move(sample.processes));
  const uint64_t limit = sample.memory.total_bytes.value_or(kMaxBytes);
  for (DeviceProcess& process : *sample.processes)
    process.used_bytes = at_most(process.used_bytes, limit);
  mark_clients_of_mps(cached, *sample.processes);
  add_percents(cached, *sample.processes);
}

void add_kept(const CachedReadings& cached, DeviceSample& sample) {
  sample.celsius = cached.celsius;
  sample.core_mhz = cached.core_mhz;
  sample.memory_mhz = cached.memory_mhz;
  sample.throttle_reasons = cached.throttle_reasons;
  if (!sample.milliwatts) sample.milliwatts = cached.milliwatts;
  sample.memory_bandwidth_percent = cached.traffic.memory_bandwidth_percent;
  sample.pcie_sent_bytes_per_second = cached.traffic.pcie_sent_bytes_per_second;
  sample.pcie_received_bytes_per_second = cached.traffic.pcie_received_bytes_per_second;
  sample.nvlink_sent_bytes_per_second = cached.traffic.nvlink_sent_bytes_per_second;
  sample.nvlink_received_bytes_per_second = cached.traffic.nvlink_received_bytes_per_second;
}

}  // namespace

NvmlReturn take_sample(const NvmlApi& api, CachedReadings& cached, DeviceSample& sample) {
  if (const auto answer = query_memory(api, cached.device, sample.memory); is_out_of_reach(answer))
    return answer;
  if (const auto answer = query_busy(api, cached.device, sample); is_lost(answer)) return answer;
  sample.processes = list_processes(api, ProcessKind::kCompute, cached.device);
  append(sample.processes, list_processes(api, ProcessKind::kGraphics, cached.device));
  query_traffic_and_power(api, cached, sample);
  query_in_turn(api, sample, cached);
  complete_processes(api, cached, sample);
  add_kept(cached, sample);
  return kSuccess;
}

}  // namespace vram::gpu::nvml
