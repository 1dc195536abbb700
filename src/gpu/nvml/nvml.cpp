#include "gpu/nvml/nvml.hpp"

#include "gpu/nvml/process_list.hpp"

#include <array>
#include <string_view>

namespace vram::gpu::nvml {
namespace {

std::string_view advice_for(NvmlReturn error) {
  switch (error) {
    case kDriverNotLoaded:
      return "load NVIDIA's kernel module, or run on a machine with a GPU";
    case kLibRmVersionMismatch:
      return "the library and the kernel's module are of different versions: reboot, or install "
             "the driver anew";
    case kOperatingSystem:
    case kUnknown:
      return "in a container the devices may have been taken away: start it again";
    default:
      return "run nvidia-smi to see whether the driver works at all";
  }
}

// A text that one of the library's functions writes.
template <typename Function>
std::optional<std::string> text_of(Function* function, nvmlDevice device) {
  std::array<char, kTextBytes> text{};
  if (function == nullptr || function(device, text.data(), text.size()) != kSuccess)
    return std::nullopt;
  text.back() = '\0';
  return std::string(text.data());
}

// As telemetry.hpp has it. The headers say that used includes reserved; the drivers seen so far
// leave it out. What adds up decides.
DeviceMemory as_memory(const MemoryV2& read) {
  DeviceMemory memory{read.total_bytes, read.used_bytes, read.free_bytes, read.reserved_bytes};
  const bool is_reserved_in_used = read.used_bytes >= read.reserved_bytes &&
                                   read.used_bytes + read.free_bytes >= read.total_bytes;
  if (is_reserved_in_used) memory.used_bytes = read.used_bytes - read.reserved_bytes;
  return memory;
}

void forget_if_more_than(std::optional<uint64_t> limit, std::optional<uint64_t>& bytes) {
  if (limit && bytes && *bytes > *limit) bytes.reset();
}

}  // namespace

Result<Nvml> Nvml::open(const std::string& path) {
  const auto api = NvmlApi::load(path);
  if (!api) return tl::unexpected(api.error());
  if (const NvmlReturn result = api->init(); result != kSuccess) {
    return fail(result == kDriverNotLoaded ? Code::kNotFound : Code::kUnsupported,
                "expected {} to start, found that nvmlInit answers {}: {}", path,
                api->name_of(result), advice_for(result));
  }
  return Nvml(*api);
}

Nvml::~Nvml() {
  if (is_open_) (void)api_.shutdown();
}

Result<uint32_t> Nvml::device_count() const {
  unsigned count = 0;
  if (const NvmlReturn result = api_.device_get_count(&count); result != kSuccess) {
    return fail(Code::kUnsupported,
                "expected the number of GPUs, found that nvmlDeviceGetCount answers {}: {}",
                api_.name_of(result), advice_for(result));
  }
  return count;
}

DeviceSample Nvml::sample(uint32_t index) const {
  DeviceSample sample;
  sample.index = index;
  nvmlDevice device = nullptr;
  if (const NvmlReturn result = api_.device_get_handle(index, &device); result != kSuccess) {
    sample.trouble = api_.name_of(result);
    return sample;
  }
  sample.name = text_of(api_.device_get_name, device);
  sample.uuid = text_of(api_.device_get_uuid, device);
  sample.memory = memory_of(device);
  Utilization busy{};
  if (api_.device_get_utilization != nullptr &&
      api_.device_get_utilization(device, &busy) == kSuccess) {
    if (busy.gpu_percent <= 100) sample.busy_percent = busy.gpu_percent;
    if (busy.memory_percent <= 100) sample.memory_busy_percent = busy.memory_percent;
  }
  sample.processes = processes_of(device);
  if (sample.processes) {
    for (DeviceProcess& process : *sample.processes)
      forget_if_more_than(sample.memory.total_bytes, process.used_bytes);
  }
  return sample;
}

DeviceMemory Nvml::memory_of(nvmlDevice device) const {
  DeviceMemory memory;
  MemoryV2 newer{};
  newer.version = kMemoryV2Version;
  MemoryV1 older{};
  if (api_.device_get_memory_v2 != nullptr &&
      api_.device_get_memory_v2(device, &newer) == kSuccess) {
    memory = as_memory(newer);
  } else if (api_.device_get_memory_v1 != nullptr &&
             api_.device_get_memory_v1(device, &older) == kSuccess) {
    memory = {older.total_bytes, older.used_bytes, older.free_bytes, std::nullopt};
  }
  forget_if_more_than(memory.total_bytes, memory.used_bytes);
  forget_if_more_than(memory.total_bytes, memory.free_bytes);
  forget_if_more_than(memory.total_bytes, memory.reserved_bytes);
  return memory;
}

Nvml::Processes Nvml::processes_of(nvmlDevice device) const {
  auto compute = list_processes(api_, api_.compute, device);
  auto graphics = list_processes(api_, api_.graphics, device);
  if (!compute && !graphics) return std::nullopt;
  return merge_processes(std::move(compute).value_or(std::vector<DeviceProcess>{}),
                         std::move(graphics).value_or(std::vector<DeviceProcess>{}));
}

}  // namespace vram::gpu::nvml
