#include "gpu/nvml/process_list.hpp"

#include "gpu/nvml/nvml_api.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

namespace vram::gpu::nvml {
namespace {

using Processes = std::vector<DeviceProcess>;

std::optional<uint64_t> known_bytes(uint64_t bytes) {
  return bytes == kNotAvailable ? std::nullopt : std::optional(bytes);
}

DeviceProcess as_process(const ProcessV1& entry) {
  DeviceProcess process;
  process.pid = entry.pid;
  process.used_bytes = known_bytes(entry.used_bytes);
  return process;
}

template <typename Entry>
DeviceProcess as_process(const Entry& entry) {
  DeviceProcess process = as_process(ProcessV1{entry.pid, entry.used_bytes});
  process.gpu_instance = known_instance(entry.gpu_instance);
  process.compute_instance = known_instance(entry.compute_instance);
  return process;
}

// Processes come while they are counted: each try has room for more than the last count.
template <typename Entry>
NvmlReturn list_with(NvmlApi::ListProcesses* list, nvmlDevice device, Processes& processes) {
  if (list == nullptr) return kFunctionNotFound;
  unsigned room = 256;
  for (int tries = 0; tries < 3; ++tries) {
    std::vector<Entry> entries(room);
    unsigned count = room;
    const NvmlReturn result = list(device, &count, entries.data());
    if (result == kInsufficientSize) {
      room = std::min(count, 65'536U) + 16;
      continue;
    }
    if (result != kSuccess) return result;
    entries.resize(std::min(count, room));
    for (const Entry& entry : entries) processes.push_back(as_process(entry));
    return kSuccess;
  }
  return kInsufficientSize;
}

auto key_of(const DeviceProcess& process) {
  return std::tuple(process.pid, process.gpu_instance, process.compute_instance);
}

std::optional<Processes> list_newest(const NvmlApi& api, const NvmlApi::Lists& lists,
                                     nvmlDevice device) {
  Processes processes;
  NvmlReturn answer = api.is_v3_of_535 ? list_with<ProcessV3Of535>(lists.v3, device, processes)
                                       : list_with<ProcessV2>(lists.v3, device, processes);
  if (is_of_other_version(answer)) answer = list_with<ProcessV2>(lists.v2, device, processes);
  if (is_of_other_version(answer)) answer = list_with<ProcessV1>(lists.v1, device, processes);
  if (answer != kSuccess) return std::nullopt;
  return processes;
}

const NvmlApi::Lists& lists_of(const NvmlApi& api, ProcessKind kind) {
  if (kind == ProcessKind::kCompute) return api.compute;
  return kind == ProcessKind::kGraphics ? api.graphics : api.mps;
}

uint64_t microseconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

// Those newer than a time, of whatever processes; there may be several of one.
std::vector<ProcessBusy> busy_since(const NvmlApi& api, nvmlDevice device, uint64_t since_us) {
  unsigned room = 1024;
  for (int tries = 0; tries < 2; ++tries) {
    std::vector<ProcessBusy> samples(room);
    unsigned count = room;
    const NvmlReturn result = api.device_get_process_busy(device, samples.data(), &count, since_us);
    if (result == kInsufficientSize) {
      room = std::min(count, 65'536U) + 16;
      continue;
    }
    samples.resize(result == kSuccess ? std::min(count, room) : 0);
    return samples;
  }
  return {};
}

}  // namespace

std::optional<Processes> list_processes(const NvmlApi& api, ProcessKind kind, nvmlDevice device) {
  auto processes = list_newest(api, lists_of(api, kind), device);
  if (!processes) return std::nullopt;
  for (DeviceProcess& process : *processes) {
    process.is_graphics = kind == ProcessKind::kGraphics;
    process.is_compute = !process.is_graphics;
    process.is_mps = kind == ProcessKind::kMps;
  }
  return processes;
}

Processes merge_processes(Processes all) {
  std::ranges::stable_sort(all, {}, key_of);
  Processes merged;
  merged.reserve(all.size());
  for (const DeviceProcess& process : all) {
    if (merged.empty() || key_of(merged.back()) != key_of(process)) {
      merged.push_back(process);
      continue;
    }
    DeviceProcess& same = merged.back();
    same.is_compute |= process.is_compute;
    same.is_graphics |= process.is_graphics;
    same.is_mps |= process.is_mps;
    same.used_bytes = std::max(same.used_bytes, process.used_bytes);  // unknown is the least
  }
  return merged;
}

bool is_same(const DeviceProcess& one, const DeviceProcess& other) {
  return key_of(one) == key_of(other);
}

// The driver also reports processes that are gone, older times, and more than 100 %.
std::map<uint32_t, uint32_t> query_percent_by_pid(const NvmlApi& api, nvmlDevice device) {
  if (api.device_get_process_busy == nullptr) return {};
  const uint64_t since_us = microseconds_since_1970() - 1'000'000;
  std::vector<ProcessBusy> samples = busy_since(api, device, since_us);
  std::erase_if(samples, [&](const ProcessBusy& sample) {
    return sample.time_us <= since_us || sample.busy_percent > 100;
  });
  std::ranges::sort(samples, {}, &ProcessBusy::time_us);
  std::map<uint32_t, uint32_t> percent_by_pid;
  for (const ProcessBusy& sample : samples) percent_by_pid[sample.pid] = sample.busy_percent;
  return percent_by_pid;
}

}  // namespace vram::gpu::nvml
