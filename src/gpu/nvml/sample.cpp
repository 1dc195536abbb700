#include "gpu/nvml/sample.hpp"

#include "gpu/nvml/ask.hpp"
#include "gpu/nvml/fields.hpp"
#include "gpu/nvml/process_list.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace vram::gpu::nvml {
namespace {

constexpr uint32_t kMostCelsius = 250;
constexpr uint32_t kMostMhz = 100'000;
constexpr uint32_t kMostMilliwatts = 100'000'000;

using Processes = std::vector<DeviceProcess>;
enum Figure : unsigned { kCelsius, kCore, kMemoryClock, kThrottle, kPower, kMps, kParts, kFigures };

// What is unknown or impossible for one function alone is NVML's other answers.
bool is_out_of_reach(NvmlReturn answer) {
  static constexpr std::array kAnswers{kUninitialized, kInvalidArgument,     kDriverNotLoaded,
                                       kGpuIsLost,     kResetRequired,       kOperatingSystem,
                                       kUnknown,       kLibRmVersionMismatch};
  return std::ranges::find(kAnswers, answer) != kAnswers.end();
}

NvmlReturn ask_busy(const NvmlApi& api, nvmlDevice device, DeviceSample& sample) {
  if (api.device_get_utilization == nullptr) return kFunctionNotFound;
  Utilization busy{};
  const NvmlReturn answer = api.device_get_utilization(device, &busy);
  if (answer != kSuccess) return answer;
  sample.busy_percent = at_most(100U, std::optional(busy.gpu_percent));
  sample.memory_busy_percent = at_most(100U, std::optional(busy.memory_percent));
  return answer;
}

void ask_traffic_and_power(const NvmlApi& api, nvmlDevice device, DeviceSample& sample) {
  constexpr uint64_t kKib = 1024;
  std::array fields{field(kFieldPcieSentBytes), field(kFieldPcieReceivedBytes),
                    field(kFieldNvlinkSentKib, kAllLinks),
                    field(kFieldNvlinkReceivedKib, kAllLinks), field(kFieldPowerNow)};
  ask_fields(api, device, fields);
  sample.pcie_sent_bytes = known_value(fields[0]);
  sample.pcie_received_bytes = known_value(fields[1]);
  if (const auto kib = at_most(kNotAvailable / kKib, known_value(fields[2])))
    sample.nvlink_sent_bytes = *kib * kKib;
  if (const auto kib = at_most(kNotAvailable / kKib, known_value(fields[3])))
    sample.nvlink_received_bytes = *kib * kKib;
  if (const auto power = at_most(uint64_t{kMostMilliwatts}, known_value(fields[4])))
    sample.milliwatts = static_cast<uint32_t>(*power);
}

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
  return answer == kSuccess ? at_most(kMostCelsius, std::optional(celsius)) : std::nullopt;
}

std::optional<std::vector<std::string>> throttle_reasons_of(const NvmlApi& api, nvmlDevice device) {
  const auto bits = ask<uint64_t>(api.device_get_throttle_reasons, device);
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

bool is_same(const DeviceProcess& one, const DeviceProcess& other) {
  return one.pid == other.pid && one.gpu_instance == other.gpu_instance &&
         one.compute_instance == other.compute_instance;
}

// Clients of MPS are in the compute list, too, with most drivers.
Processes mps_only(const NvmlApi& api, nvmlDevice device, const DeviceSample& sample) {
  Processes found = list_processes(api, ProcessKind::kMps, device).value_or(Processes{});
  const Processes none;
  const Processes& others = sample.processes ? *sample.processes : none;
  std::erase_if(found, [&](const DeviceProcess& process) {
    return std::ranges::any_of(others,
                               [&](const DeviceProcess& other) { return is_same(process, other); });
  });
  return found;
}

std::vector<MigHandle> parts_of(const NvmlApi& api, nvmlDevice device, const DeviceSample& sample) {
  const bool has_processes = sample.processes && !sample.processes->empty();
  if (has_processes || sample.busy_percent) return {};  // MIG's devices have no such figure
  if (!ask_is_mig(api, device).value_or(false)) return {};
  return ask_mig_handles(api, device);
}

void ask_figure(const NvmlApi& api, Figure figure, const DeviceSample& sample, Kept& kept) {
  const nvmlDevice device = kept.device;
  switch (figure) {
    case kCelsius:
      kept.celsius = celsius_of(api, device);
      break;
    case kCore:
      kept.core_mhz =
          at_most(kMostMhz, ask<unsigned>(api.device_get_clock, device, kClockGraphics));
      break;
    case kMemoryClock:
      kept.memory_mhz =
          at_most(kMostMhz, ask<unsigned>(api.device_get_clock, device, kClockMemory));
      break;
    case kThrottle:
      kept.throttle_reasons = throttle_reasons_of(api, device);
      break;
    case kPower:
      kept.milliwatts.reset();
      if (!sample.milliwatts)
        kept.milliwatts = at_most(kMostMilliwatts, ask<unsigned>(api.device_get_power, device));
      break;
    case kMps:
      kept.mps = mps_only(api, device, sample);
      break;
    case kParts:
    case kFigures:
      kept.parts = parts_of(api, device, sample);
      break;
  }
}

void ask_figures_in_turn(const NvmlApi& api, const DeviceSample& sample, Kept& kept) {
  const auto now = std::chrono::steady_clock::now();
  const bool is_after_pause = !kept.sampled || now - *kept.sampled > kPause;
  const unsigned count = is_after_pause ? unsigned{kFigures} : 2;
  for (unsigned i = 0; i < count; ++i) {
    ask_figure(api, static_cast<Figure>(kept.next), sample, kept);
    kept.next = (kept.next + 1) % kFigures;
  }
  kept.sampled = now;
}

void append(std::optional<Processes>& all, std::optional<Processes> more) {
  if (!more) return;
  if (!all) all.emplace();
  all->insert(all->end(), std::make_move_iterator(more->begin()),
              std::make_move_iterator(more->end()));
}

void add_processes_of_parts(const NvmlApi& api, const Kept& kept, DeviceSample& sample) {
  if (sample.processes && !sample.processes->empty()) return;
  for (const MigHandle& part : kept.parts) {
    auto processes = list_processes(api, ProcessKind::kCompute, part.device);
    if (!processes) continue;  // cut anew: they are found in their turn
    for (DeviceProcess& process : *processes) {
      process.gpu_instance = part.gpu_instance;
      process.compute_instance = part.compute_instance;
    }
    append(sample.processes, std::move(processes));
  }
}

// The lists that are asked for together with the ones that are kept.
void complete_processes(const NvmlApi& api, const Kept& kept, DeviceSample& sample) {
  add_processes_of_parts(api, kept, sample);
  if (!kept.mps.empty()) append(sample.processes, kept.mps);
  if (!sample.processes) return;
  sample.processes = merge_processes(*std::move(sample.processes));
  const uint64_t limit = sample.memory.total_bytes.value_or(kMostBytes);
  for (DeviceProcess& process : *sample.processes)
    process.used_bytes = at_most(limit, process.used_bytes);
  ask_busy(api, kept.device, *sample.processes);
}

}  // namespace

NvmlReturn take_sample(const NvmlApi& api, Kept& kept, DeviceSample& sample) {
  if (const auto answer = ask_memory(api, kept.device, sample.memory); is_out_of_reach(answer))
    return answer;
  if (const auto answer = ask_busy(api, kept.device, sample); is_out_of_reach(answer))
    return answer;
  sample.processes = list_processes(api, ProcessKind::kCompute, kept.device);
  append(sample.processes, list_processes(api, ProcessKind::kGraphics, kept.device));
  ask_traffic_and_power(api, kept.device, sample);
  ask_figures_in_turn(api, sample, kept);
  complete_processes(api, kept, sample);
  sample.celsius = kept.celsius;
  sample.core_mhz = kept.core_mhz;
  sample.memory_mhz = kept.memory_mhz;
  sample.throttle_reasons = kept.throttle_reasons;
  if (!sample.milliwatts) sample.milliwatts = kept.milliwatts;
  return kSuccess;
}

}  // namespace vram::gpu::nvml
