#include "gpu/nvml/sample.hpp"

#include "gpu/nvml/fields.hpp"
#include "gpu/nvml/process_list.hpp"
#include "gpu/nvml/query.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <span>
#include <utility>

namespace vram::gpu::nvml {
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
  sample.busy_percent = at_most(100U, std::optional(busy.gpu_percent));
  sample.memory_busy_percent = at_most(100U, std::optional(busy.memory_percent));
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
  if (const auto kib = at_most(kNotAvailable / kKib, known_counter(fields[0])))
    sample.nvlink_sent_bytes = *kib * kKib;
  if (const auto kib = at_most(kNotAvailable / kKib, known_counter(fields[1])))
    sample.nvlink_received_bytes = *kib * kKib;
  if (const auto power = at_most(uint64_t{kMaxMilliwatts}, known_value(fields[2])))
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
    if (!processes) continue;  // cut anew: they are found in their turn
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
    process.used_bytes = at_most(limit, process.used_bytes);
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
