#include "watch/bounds.hpp"

namespace vram::watch {
namespace {

constexpr uint32_t kWhole = 100;

void keep_percent(std::optional<uint32_t>& percent) {
  if (percent > kWhole) percent.reset();
}

// Faster than any bus or link: a counter that was reset in between, or a broken driver.
void keep_rate(std::optional<uint64_t>& bytes_per_second) {
  constexpr uint64_t kMax = 10'000'000'000'000;
  bytes_per_second = at_most(bytes_per_second, kMax);
}

void keep_below_total(gpu::DeviceMemory& memory) {
  memory.used_bytes = at_most(memory.used_bytes, memory.total_bytes);
  memory.free_bytes = at_most(memory.free_bytes, memory.total_bytes);
  memory.reserved_bytes = at_most(memory.reserved_bytes, memory.total_bytes);
}

void keep_below(gpu::DeviceMemory& memory, std::optional<uint64_t> limit) {
  memory.total_bytes = at_most(memory.total_bytes, limit);
  memory.used_bytes = at_most(memory.used_bytes, limit);
  memory.free_bytes = at_most(memory.free_bytes, limit);
  memory.reserved_bytes = at_most(memory.reserved_bytes, limit);
  keep_below_total(memory);
}

}  // namespace

std::optional<uint64_t> at_most(std::optional<uint64_t> figure, std::optional<uint64_t> limit) {
  return figure && limit && *figure > *limit ? std::nullopt : figure;
}

std::optional<uint64_t> plus(std::optional<uint64_t> sum, std::optional<uint64_t> figure) {
  uint64_t result = 0;
  if (!sum || !figure || __builtin_add_overflow(*sum, *figure, &result)) return std::nullopt;
  return result;
}

void drop_impossible(gpu::DeviceSample& sample, gpu::DeviceHealth& health) {
  const auto total = sample.memory.total_bytes;
  keep_below_total(sample.memory);
  keep_percent(sample.busy_percent);
  keep_percent(sample.memory_busy_percent);
  keep_percent(sample.memory_bandwidth_percent);
  keep_rate(sample.pcie_sent_bytes_per_second);
  keep_rate(sample.pcie_received_bytes_per_second);
  keep_rate(sample.nvlink_sent_bytes_per_second);
  keep_rate(sample.nvlink_received_bytes_per_second);
  if (sample.processes) {
    for (gpu::DeviceProcess& process : *sample.processes) {
      process.used_bytes = at_most(process.used_bytes, total);
      keep_percent(process.busy_percent);
    }
  }
  if (health.bar1) keep_below_total(*health.bar1);  // has a size of its own
  for (gpu::MigInstance& instance : health.mig_instances) keep_below(instance.memory, total);
}

}  // namespace vram::watch
