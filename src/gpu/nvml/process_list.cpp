#include "gpu/nvml/process_list.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace vram::gpu::nvml {
namespace {

using Processes = std::vector<DeviceProcess>;

std::optional<uint64_t> known_bytes(uint64_t bytes) {
  return bytes == kNotAvailable ? std::nullopt : std::optional(bytes);
}

std::optional<uint32_t> known_instance(uint32_t instance) {
  return instance == kNoInstance ? std::nullopt : std::optional(instance);
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
std::optional<Processes> list_with(NvmlApi::ListProcesses* list, nvmlDevice device) {
  if (list == nullptr) return std::nullopt;
  unsigned room = 64;
  for (int tries = 0; tries < 3; ++tries) {
    std::vector<Entry> entries(room);
    unsigned count = room;
    const NvmlReturn result = list(device, &count, entries.data());
    if (result == kInsufficientSize) {
      room = std::min(count, 65'536U) + 16;
      continue;
    }
    if (result != kSuccess) return std::nullopt;
    entries.resize(std::min(count, room));
    Processes processes;
    for (const Entry& entry : entries) processes.push_back(as_process(entry));
    return processes;
  }
  return std::nullopt;
}

auto key_of(const DeviceProcess& process) {
  return std::tuple(process.pid, process.gpu_instance, process.compute_instance);
}

}  // namespace

std::optional<Processes> list_processes(const NvmlApi& api, const NvmlApi::Lists& lists,
                                        nvmlDevice device) {
  auto processes = api.is_v3_of_535 ? list_with<ProcessV3Of535>(lists.v3, device)
                                    : list_with<ProcessV2>(lists.v3, device);
  if (!processes) processes = list_with<ProcessV2>(lists.v2, device);
  if (!processes) processes = list_with<ProcessV1>(lists.v1, device);
  return processes;
}

Processes merge_processes(Processes compute, Processes graphics) {
  for (DeviceProcess& process : compute) process.is_compute = true;
  for (DeviceProcess& process : graphics) process.is_graphics = true;
  Processes all = std::move(compute);
  all.insert(all.end(), graphics.begin(), graphics.end());
  std::ranges::stable_sort(all, {}, key_of);
  Processes merged;
  for (const DeviceProcess& process : all) {
    if (merged.empty() || key_of(merged.back()) != key_of(process)) {
      merged.push_back(process);
      continue;
    }
    DeviceProcess& same = merged.back();
    same.is_compute |= process.is_compute;
    same.is_graphics |= process.is_graphics;
    same.used_bytes = std::max(same.used_bytes, process.used_bytes);  // unknown is the least
  }
  return merged;
}

}  // namespace vram::gpu::nvml
