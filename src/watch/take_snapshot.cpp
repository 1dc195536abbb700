#include "watch/take_snapshot.hpp"

#include "watch/bounds.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <span>
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

// A device's word on a process.
struct Word {
  uint32_t device = 0;
  const gpu::DeviceProcess* process = nullptr;
};

// By pid, and of one process by device.
std::vector<Word> words_of(const std::vector<Device>& devices) {
  std::vector<Word> words;
  for (uint32_t place = 0; place < devices.size(); ++place) {
    const auto& processes = devices[place].sample.processes;
    if (!processes) continue;
    for (const gpu::DeviceProcess& process : *processes) words.push_back({place, &process});
  }
  std::ranges::stable_sort(words, {}, [](const Word& word) { return word.process->pid; });
  return words;
}

// Takes those of the first process.
std::vector<Use> next_uses(std::span<const Word>& words) {
  const uint32_t pid = words.front().process->pid;
  const auto end =
      std::ranges::find_if(words, [&](const Word& w) { return w.process->pid != pid; });
  const auto count = static_cast<size_t>(end - words.begin());
  std::vector<Use> uses;
  uses.reserve(count);
  for (const Word& word : words.first(count)) uses.push_back({word.device, *word.process, {}});
  words = words.subspan(count);
  return uses;
}

Process process_of(std::vector<Use> uses, const std::vector<Device>& devices, ProcessTable& table,
                   Postings& postings) {
  const KnownProcess& known = table.lookup_named(uses.front().process.pid);
  Process process;
  process.facts = known.facts;
  process.uses = std::move(uses);
  if (known.has_ended) return process;
  const auto figures = postings.figures_of(*known.facts);
  if (figures) add_figures(process, *figures, known, devices);
  return process;
}

}  // namespace

Moment current_moment() {
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
  postings.begin_sample();
  const std::vector<Word> words = words_of(snapshot.devices);
  for (std::span<const Word> rest = words; !rest.empty();)
    snapshot.processes.push_back(process_of(next_uses(rest), snapshot.devices, table, postings));
  table.forget_unused();
  return snapshot;
}

}  // namespace vram::watch
