#include "watch/take_snapshot.hpp"

#include "watch/bounds.hpp"

#include <array>
#include <chrono>
#include <map>
#include <set>
#include <unistd.h>
#include <utility>

namespace vram::watch {
namespace {

using Bytes = std::optional<uint64_t>;

std::optional<int64_t> minus(Bytes whole, Bytes part) {
  int64_t result = 0;
  if (!whole || !part || __builtin_sub_overflow(*whole, *part, &result)) return std::nullopt;
  return result;
}

// Of a device in parts the whole is often not to be asked for: then the parts' sum. Compute
// instances share the memory of their GPU instance, which counts once.
Bytes used_of(const Device& device) {
  if (device.sample.memory.used_bytes) return device.sample.memory.used_bytes;
  const auto& instances = device.health.mig_instances;
  if (instances.empty()) return std::nullopt;
  std::set<uint32_t> counted;
  Bytes sum = 0;
  for (const gpu::MigInstance& instance : instances) {
    if (counted.insert(instance.gpu_instance).second) sum = plus(sum, instance.memory.used_bytes);
  }
  return at_most(sum, device.sample.memory.total_bytes);
}

std::optional<int64_t> unattributed_of(const Device& device) {
  if (!device.sample.processes) return std::nullopt;
  Bytes sum = 0;
  for (const gpu::DeviceProcess& process : *device.sample.processes) {
    sum = plus(sum, process.used_bytes);
  }
  return minus(used_of(device), sum);
}

std::optional<int64_t> unaccounted_of(const gpu::DeviceMemory& memory) {
  return minus(memory.total_bytes,
               plus(plus(memory.used_bytes, memory.reserved_bytes), memory.free_bytes));
}

Device device_of(DeviceReading&& reading) {
  drop_impossible(reading.sample, reading.health);
  Device device{.identity = std::move(reading.identity),
                .health = std::move(reading.health),
                .sample = std::move(reading.sample),
                .unattributed_bytes = {},
                .unaccounted_bytes = {},
                .pcie_sent_bytes_per_second = {},
                .pcie_received_bytes_per_second = {},
                .nvlink_sent_bytes_per_second = {},
                .nvlink_received_bytes_per_second = {},
                .xids = std::move(reading.xids)};
  device.pcie_sent_bytes_per_second = device.sample.pcie_sent_bytes_per_second;
  device.pcie_received_bytes_per_second = device.sample.pcie_received_bytes_per_second;
  device.nvlink_sent_bytes_per_second = device.sample.nvlink_sent_bytes_per_second;
  device.nvlink_received_bytes_per_second = device.sample.nvlink_received_bytes_per_second;
  device.unattributed_bytes = unattributed_of(device);
  device.unaccounted_bytes = unaccounted_of(device.sample.memory);
  return device;
}

std::map<uint32_t, std::vector<Use>> uses_by_pid(const std::vector<Device>& devices) {
  std::map<uint32_t, std::vector<Use>> uses;
  for (uint32_t place = 0; place < devices.size(); ++place) {
    const auto& processes = devices[place].sample.processes;
    if (!processes) continue;
    for (const gpu::DeviceProcess& process : *processes) {
      uses[process.pid].push_back({place, process, std::nullopt});
    }
  }
  return uses;
}

}  // namespace

Moment here_and_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::array<char, 256> host{};
  (void)gethostname(host.data(), host.size() - 1);
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(), host.data()};
}

Snapshot take_snapshot(Moment moment, Readings readings, ProcessTable& table, Postings& postings) {
  Snapshot snapshot{.time_ns = moment.time_ns,
                    .host = std::move(moment.host),
                    .devices = {},
                    .processes = {},
                    .notes = std::move(readings.notes)};
  for (DeviceReading& reading : readings.devices) {
    snapshot.devices.push_back(device_of(std::move(reading)));
  }
  table.begin_tick();
  postings.begin_look();
  for (auto& [pid, uses] : uses_by_pid(snapshot.devices)) {
    const KnownProcess& known = table.look(pid);
    Process process;
    process.facts = known.facts;
    process.uses = std::move(uses);
    const auto figures = postings.figures_of(known.facts);
    if (figures) add_figures(process, *figures, known, snapshot.devices);
    snapshot.processes.push_back(std::move(process));
  }
  table.forget_unasked();
  return snapshot;
}

}  // namespace vram::watch
