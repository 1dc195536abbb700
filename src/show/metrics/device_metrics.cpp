// What a device's sample says: memory, activity, and whether it answers. See parts.hpp.
#include "show/metrics/parts.hpp"
#include "show/status_words.hpp"
#include "watch/bounds.hpp"
#include "watch/sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace vram::show::metrics {
namespace {

constexpr uint32_t kWhole = 100;

void add_counters(const gpu::DeviceSample& sample, const Labels& labels, Families& families) {
  using enum Kind;
  families.add({"vram_gpu_pcie_sent_bytes_total", kCounter,
                "Bytes that the GPU sent over PCIe: NVML field 197. May begin anew."},
               labels, sample.pcie_sent_bytes);
  families.add({"vram_gpu_pcie_received_bytes_total", kCounter,
                "Bytes that the GPU received over PCIe: NVML field 198. May begin anew."},
               labels, sample.pcie_received_bytes);
  families.add({"vram_gpu_nvlink_sent_bytes_total", kCounter,
                "Bytes that the GPU sent over all NVLinks: NVML field 138."},
               labels, sample.nvlink_sent_bytes);
  families.add({"vram_gpu_nvlink_received_bytes_total", kCounter,
                "Bytes that the GPU received over all NVLinks: NVML field 139."},
               labels, sample.nvlink_received_bytes);
}

// A counter says more, so a rate has a series only where there is none.
std::optional<uint64_t> without(const std::optional<uint64_t>& counter,
                                const std::optional<uint64_t>& rate) {
  return counter ? std::nullopt : rate;
}

void add_rates(const watch::Device& device, const Labels& labels, Families& families) {
  using enum Kind;
  const gpu::DeviceSample& sample = device.sample;
  families.add({"vram_gpu_pcie_sent_bytes_per_second", kGauge,
                "Sent over PCIe in the last seconds, where no counter tells it: NVML "
                "nvmlGpmMetricsGet 20."},
               labels, without(sample.pcie_sent_bytes, device.pcie_sent_bytes_per_second));
  families.add({"vram_gpu_pcie_received_bytes_per_second", kGauge,
                "Received over PCIe in the last seconds, where no counter tells it: NVML "
                "nvmlGpmMetricsGet 21."},
               labels, without(sample.pcie_received_bytes, device.pcie_received_bytes_per_second));
  families.add({"vram_gpu_nvlink_sent_bytes_per_second", kGauge,
                "Sent over all NVLinks in the last seconds, where no counter tells it: NVML "
                "nvmlGpmMetricsGet 61."},
               labels, without(sample.nvlink_sent_bytes, device.nvlink_sent_bytes_per_second));
  families.add({"vram_gpu_nvlink_received_bytes_per_second", kGauge,
                "Received over all NVLinks in the last seconds, where no counter tells it: NVML "
                "nvmlGpmMetricsGet 60."},
               labels,
               without(sample.nvlink_received_bytes, device.nvlink_received_bytes_per_second));
}

void add_host_memory(const watch::Device& device, const Labels& labels, Families& families) {
  using enum Kind;
  const gpu::DeviceMemory& memory = device.sample.host_memory;
  families.add({"vram_gpu_host_memory_total_bytes", kGauge,
                "Memory of the host that the GPU may use as its own: amdgpu mem_info_gtt_total."},
               labels, memory.total_bytes);
  families.add(
      {"vram_gpu_host_memory_used_bytes", kGauge, "Of it, used: amdgpu mem_info_gtt_used."}, labels,
      watch::at_most(memory.used_bytes, memory.total_bytes));
}

// NVIDIA's reasons each have a series, so that a quiet one is 0 and not gone.
void add_throttling(const watch::Device& device, const Labels& labels, Families& families) {
  static constexpr Metric kMetric{
      "vram_gpu_throttle_active", Kind::kGauge,
      "1: the clocks are held down for this reason: NVML nvmlDeviceGetCurrentClocksEventReasons."};
  const auto& reasons = device.sample.throttle_reasons;
  if (!reasons) return;
  for (const std::string& reason : *reasons)
    families.add(kMetric, labels.with("reason", reason), Number(uint64_t{1}));
  if (device.identity.vendor != gpu::Vendor::kNvidia) return;
  for (const std::string_view reason : gpu::kThrottleReasons) {
    if (std::ranges::find(*reasons, reason) == reasons->end())
      families.add(kMetric, labels.with("reason", reason), Number(uint64_t{0}));
  }
}

// Of those that count: on a MIG device a process is listed for each instance.
template <typename Counts>
std::optional<uint64_t> process_count(const gpu::DeviceSample& sample, Counts counts) {
  if (!sample.processes) return std::nullopt;
  std::set<uint32_t> pids;
  for (const gpu::DeviceProcess& process : *sample.processes) {
    if (counts(process)) pids.insert(process.pid);
  }
  return pids.size();
}

std::optional<uint64_t> process_count(const gpu::DeviceSample& sample) {
  return process_count(sample, [](const gpu::DeviceProcess&) { return true; });
}

// Of none it can't be told whether there are none or the driver does not say.
std::optional<uint64_t> mps_client_count(const gpu::DeviceSample& sample) {
  const auto count = process_count(sample, std::mem_fn(&gpu::DeviceProcess::is_mps));
  return count == 0U ? std::nullopt : count;
}

}  // namespace

std::vector<Labels> device_labels(const watch::Snapshot& snapshot) {
  std::vector<Labels> devices;
  std::set<std::string> taken;
  for (const watch::Device& device : snapshot.devices) {
    std::string key = watch::key_of(device.identity);
    if (key.empty()) key = fmt::format("device-{}", devices.size());
    Labels labels = Labels().with("uuid", key);
    while (!taken.insert(labels.text()).second) {
      key = fmt::format("{}#{}", devices.size(), key);  // in front: long values lose their end
      labels = Labels().with("uuid", key);
    }
    devices.push_back(std::move(labels));
  }
  return devices;
}

std::optional<double> ratio_of(const std::optional<uint32_t>& percent) {
  if (!percent || *percent > kWhole) return std::nullopt;
  return *percent / 100.0;
}

std::optional<double> watts_of(const std::optional<uint32_t>& milliwatts) {
  return milliwatts ? std::optional(*milliwatts / 1e3) : std::nullopt;
}

std::optional<uint64_t> hertz_of(const std::optional<uint32_t>& mhz) {
  return mhz ? std::optional(uint64_t{*mhz} * 1'000'000) : std::nullopt;
}

double seconds_of(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

std::optional<uint64_t> flag_of(const std::optional<bool>& flag) {
  return flag ? std::optional<uint64_t>(*flag ? 1 : 0) : std::nullopt;
}

void add_memory(const watch::Device& device, const Labels& labels, Families& families) {
  using enum Kind;
  const gpu::DeviceMemory& memory = device.sample.memory;
  const auto total = memory.total_bytes;
  families.add({"vram_gpu_memory_total_bytes", kGauge,
                "Memory of the GPU: NVML nvmlDeviceGetMemoryInfo_v2.total; amdgpu "
                "mem_info_vram_total; xe physical_vram_size_bytes."},
               labels, total);
  families.add({"vram_gpu_memory_used_bytes", kGauge,
                "Memory used by programs, their contexts with it: NVML "
                "nvmlDeviceGetMemoryInfo_v2.used; amdgpu mem_info_vram_used."},
               labels, watch::at_most(memory.used_bytes, total));
  families.add({"vram_gpu_memory_reserved_bytes", kGauge,
                "Memory that the driver keeps for itself, not part of used: NVML "
                "nvmlDeviceGetMemoryInfo_v2.reserved."},
               labels, watch::at_most(memory.reserved_bytes, total));
  families.add({"vram_gpu_memory_free_bytes", kGauge,
                "Free memory: NVML nvmlDeviceGetMemoryInfo_v2.free; amdgpu total less used."},
               labels, watch::at_most(memory.free_bytes, total));
  families.add({"vram_gpu_memory_unattributed_bytes", kGauge,
                "Used less the sum of all processes; below 0 where processes share memory."},
               labels, device.unattributed_bytes);
  families.add({"vram_gpu_memory_unaccounted_bytes", kGauge,
                "Total less used, reserved and free: 0 where the driver's figures add up."},
               labels, device.unaccounted_bytes);
  add_host_memory(device, labels, families);
}

void add_activity(const watch::Device& device, const Labels& labels, Families& families) {
  using enum Kind;
  const gpu::DeviceSample& sample = device.sample;
  families.add({"vram_gpu_utilization_ratio", kGauge,
                "Share of time in which any kernel ran: NVML nvmlDeviceGetUtilizationRates.gpu; "
                "amdgpu gpu_busy_percent."},
               labels, ratio_of(sample.busy_percent));
  families.add({"vram_gpu_memory_busy_ratio", kGauge,
                "Share of time in which memory was read or written, not of its bytes: NVML "
                "nvmlDeviceGetUtilizationRates.memory; amdgpu mem_busy_percent."},
               labels, ratio_of(sample.memory_busy_percent));
  families.add({"vram_gpu_memory_bandwidth_ratio", kGauge,
                "Share of the bytes that could have been read and written in the last seconds: "
                "NVML nvmlGpmMetricsGet 10."},
               labels, ratio_of(sample.memory_bandwidth_percent));
  families.add({"vram_gpu_core_clock_hertz", kGauge,
                "Clock of the cores: NVML nvmlDeviceGetClockInfo; amdgpu pp_dpm_sclk; Intel "
                "act_freq."},
               labels, hertz_of(sample.core_mhz));
  families.add({"vram_gpu_memory_clock_hertz", kGauge,
                "Clock of the memory: NVML nvmlDeviceGetClockInfo; amdgpu pp_dpm_mclk."},
               labels, hertz_of(sample.memory_mhz));
  families.add({"vram_gpu_power_watts", kGauge,
                "Power drawn: NVML field 186 or nvmlDeviceGetPowerUsage; hwmon power1, energy1."},
               labels, watts_of(sample.milliwatts));
  families.add({"vram_gpu_power_limit_watts", kGauge,
                "Power that it may draw: NVML nvmlDeviceGetEnforcedPowerLimit; hwmon power1_cap."},
               labels, watts_of(device.identity.power_limit_milliwatts));
  families.add({"vram_gpu_temperature_celsius", kGauge,
                "Temperature of the chip: NVML nvmlDeviceGetTemperature; hwmon temp1_input."},
               labels, sample.celsius);
  add_throttling(device, labels, families);
  add_counters(sample, labels, families);
  add_rates(device, labels, families);
  families.add({"vram_gpu_processes", kGauge,
                "Processes that the driver names: NVML nvmlDeviceGet*RunningProcesses; fdinfo; "
                "KFD."},
               labels, process_count(sample));
  families.add({"vram_gpu_mps_clients", kGauge,
                "Processes that compute through NVIDIA's MPS server, where there are any: NVML "
                "nvmlDeviceGetMPSComputeRunningProcesses."},
               labels, mps_client_count(sample));
}

void add_state(const watch::Device& device, const Labels& labels, Families& families) {
  using enum Kind;
  const gpu::DeviceIdentity& identity = device.identity;
  const Labels info = labels.with("index", std::to_string(identity.index))
                          .with("name", identity.name.value_or(""))
                          .with("vendor", identifier(identity.vendor))
                          .with("driver", identity.driver.value_or(""))
                          .with("pci_id", identity.pci_id.value_or(""));
  families.add({"vram_gpu_info", kInfo,
                "What the GPU is, to be joined by uuid. index is its place at this look."},
               info, Number(uint64_t{1}));
  families.add({"vram_gpu_up", kGauge,
                "0: the driver gave an error for this GPU (lost, reset required, unloaded, …)."},
               labels, flag_of(!device.sample.trouble));
  families.add({"vram_gpu_asleep", kGauge,
                "1: powered down, and not woken to be asked: power/runtime_status."},
               labels, flag_of(device.sample.is_asleep));
  if (!device.sample.trouble) return;
  families.add({"vram_gpu_trouble_info", kInfo, "Why the GPU is not up, in the driver's words."},
               labels.with("trouble", *device.sample.trouble), Number(uint64_t{1}));
}

}  // namespace vram::show::metrics
