#include "gpu/nvml/kept.hpp"

#include "gpu/nvml/ask.hpp"
#include "gpu/nvml/process_list.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace vram::gpu::nvml {
namespace {

constexpr uint32_t kMostCoreCelsius = 250;
constexpr uint32_t kMostMhz = 100'000;

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
  return answer == kSuccess ? at_most(kMostCoreCelsius, std::optional(celsius)) : std::nullopt;
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

// Clients of MPS are in the compute list, too, with most drivers.
void ask_mps(const NvmlApi& api, const DeviceSample& sample, Kept& kept) {
  const Processes listed = sample.processes.value_or(Processes{});
  kept.mps.clear();
  kept.mps_listed.clear();
  for (const DeviceProcess& client :
       list_processes(api, ProcessKind::kMps, kept.device).value_or(Processes{})) {
    const bool is_listed = std::ranges::any_of(
        listed, [&](const DeviceProcess& process) { return is_same(process, client); });
    (is_listed ? kept.mps_listed : kept.mps).push_back(client);
  }
}

std::vector<MigHandle> parts_of(const NvmlApi& api, nvmlDevice device, const DeviceSample& sample) {
  const bool has_processes = sample.processes && !sample.processes->empty();
  if (has_processes || sample.busy_percent) return {};  // MIG's devices have no such figure
  if (!ask_is_mig(api, device).value_or(false)) return {};
  return ask_mig_handles(api, device);
}

void ask_busy_processes(const NvmlApi& api, const DeviceSample& sample, Kept& kept) {
  const bool has_processes = sample.processes && !sample.processes->empty();
  kept.percent_by_pid.clear();
  if (has_processes || !kept.mps.empty() || !kept.parts.empty())
    kept.percent_by_pid = ask_percent_by_pid(api, kept.device);
}

std::optional<uint32_t> mhz_of(const NvmlApi& api, nvmlDevice device, unsigned clock) {
  return at_most(kMostMhz, ask<unsigned>(api.device_get_clock, device, clock));
}

void ask_figure(const NvmlApi& api, Figure figure, const DeviceSample& sample, Kept& kept) {
  const nvmlDevice device = kept.device;
  switch (figure) {
    case kCelsius:
      kept.celsius = celsius_of(api, device);
      break;
    case kCore:
      kept.core_mhz = mhz_of(api, device, kClockGraphics);
      break;
    case kMemoryClock:
      kept.memory_mhz = mhz_of(api, device, kClockMemory);
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
      ask_mps(api, sample, kept);
      break;
    case kParts:
      kept.parts = parts_of(api, device, sample);
      break;
    case kBusyProcesses:
      ask_busy_processes(api, sample, kept);
      break;
    case kGpmTake:
      if (kept.gpm && !kept.gpm->take()) kept.gpm.reset();
      break;
    case kGpmRead:
    case kFigures:
      kept.traffic = kept.gpm ? kept.gpm->read() : GpmFigures{};
      break;
  }
}

}  // namespace

void ask_in_turn(const NvmlApi& api, const DeviceSample& sample, Kept& kept) {
  const auto now = std::chrono::steady_clock::now();
  const bool is_first = !kept.sampled;
  if (is_first || now - *kept.sampled > kPause) {
    for (unsigned each = 0; each < kFigures; ++each)
      ask_figure(api, static_cast<Figure>(each), sample, kept);
  } else {
    const auto& turn = kTurns.at(kept.turn);
    // The memory of a client that no other list has is as new as that of the others.
    if (!kept.mps.empty() && std::ranges::count(turn, kMps) == 0)
      ask_figure(api, kMps, sample, kept);
    for (const Figure figure : turn) ask_figure(api, figure, sample, kept);
    kept.turn = (kept.turn + 1) % kTurns.size();
  }
  if (!is_first && !kept.is_gpm_asked) {
    kept.is_gpm_asked = true;
    kept.gpm = Gpm::open(api, kept.device);
  }
  kept.sampled = now;
}

}  // namespace vram::gpu::nvml
