#include "watch/history/metrics.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace vram::watch {
namespace {

constexpr int64_t kMaxInteger = int64_t{1} << 53;

constexpr std::array kMetrics = {
    Metric{kUsedBytes, "used_bytes", "bytes"},
    Metric{2, "reserved_bytes", "bytes"},
    Metric{3, "free_bytes", "bytes"},
    Metric{4, "unattributed_bytes", "bytes"},
    Metric{5, "busy_percent", "percent"},
    Metric{6, "memory_busy_percent", "percent"},
    Metric{7, "temperature_celsius", "degrees Celsius"},
    Metric{8, "power_milliwatts", "milliwatts"},
    Metric{9, "core_mhz", "megahertz"},
    Metric{10, "memory_mhz", "megahertz"},
    Metric{11, "process_count", "processes"},
    Metric{12, "host_used_bytes", "bytes"},
    Metric{13, "pcie_sent_bytes_per_second", "bytes per second"},
    Metric{14, "pcie_received_bytes_per_second", "bytes per second"},
};

void put(std::vector<MetricValue>& out, uint32_t number, std::optional<uint64_t> value) {
  if (const auto known = storable(value)) out.push_back({number, *known});
}

void put_memory(std::vector<MetricValue>& out, const gpu::DeviceMemory& memory) {
  put(out, kUsedBytes, memory.used_bytes);
  put(out, 2, memory.reserved_bytes);
  put(out, 3, memory.free_bytes);
}

// A process on several MIG instances is one.
std::optional<uint64_t> process_count(const gpu::DeviceSample& sample) {
  if (!sample.processes) return std::nullopt;
  std::set<uint32_t> pids;
  for (const gpu::DeviceProcess& process : *sample.processes) pids.insert(process.pid);
  return pids.size();
}

}  // namespace

std::span<const Metric> metrics() { return kMetrics; }

std::optional<Metric> find_metric(std::string_view name) {
  const auto* found = std::ranges::find(kMetrics, name, &Metric::name);
  if (found == kMetrics.end()) return std::nullopt;
  return *found;
}

std::optional<int64_t> storable(std::optional<uint64_t> value) {
  if (!value || *value > static_cast<uint64_t>(kMaxInteger)) return std::nullopt;
  return static_cast<int64_t>(*value);
}

std::vector<MetricValue> values_of(const Device& device) {
  std::vector<MetricValue> values;
  values.reserve(kMetrics.size());
  const gpu::DeviceSample& sample = device.sample;
  put_memory(values, sample.memory);
  if (const auto bytes = device.unattributed_bytes;
      bytes && *bytes <= kMaxInteger && *bytes >= -kMaxInteger)
    values.push_back({4, *bytes});
  put(values, 5, sample.busy_percent);
  put(values, 6, sample.memory_busy_percent);
  put(values, 7, sample.celsius);
  put(values, 8, sample.milliwatts);
  put(values, 9, sample.core_mhz);
  put(values, 10, sample.memory_mhz);
  put(values, 11, process_count(sample));
  put(values, 12, sample.host_memory.used_bytes);
  put(values, 13, device.pcie_sent_bytes_per_second);
  put(values, 14, device.pcie_received_bytes_per_second);
  return values;
}

std::vector<MetricValue> values_of(const gpu::MigInstance& instance) {
  std::vector<MetricValue> values;
  put_memory(values, instance.memory);
  return values;
}

}  // namespace vram::watch
