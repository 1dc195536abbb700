#include "gpu/nvml/query.hpp"

namespace vram::gpu::nvml {
namespace {

DeviceMemory without_impossible(DeviceMemory memory) {
  memory.total_bytes = at_most(kMaxBytes, memory.total_bytes);
  if (memory.total_bytes.value_or(0) == 0) return {};
  memory.used_bytes = at_most(*memory.total_bytes, memory.used_bytes);
  memory.free_bytes = at_most(*memory.total_bytes, memory.free_bytes);
  memory.reserved_bytes = at_most(*memory.total_bytes, memory.reserved_bytes);
  return memory;
}

// The headers say that used includes reserved; the drivers seen so far leave it out. What adds up
// decides.
DeviceMemory known_memory(const MemoryV2& read) {
  DeviceMemory memory =
      without_impossible({read.total_bytes, read.used_bytes, read.free_bytes, read.reserved_bytes});
  if (!memory.used_bytes || !memory.free_bytes || !memory.reserved_bytes) return memory;
  const bool is_reserved_in_used = read.used_bytes >= read.reserved_bytes &&
                                   read.used_bytes + read.free_bytes >= read.total_bytes;
  if (is_reserved_in_used) memory.used_bytes = read.used_bytes - read.reserved_bytes;
  return memory;
}

}  // namespace

DeviceMemory known_memory(const MemoryV1& read) {
  return without_impossible({read.total_bytes, read.used_bytes, read.free_bytes, std::nullopt});
}

NvmlReturn query_memory(const NvmlApi& api, nvmlDevice device, DeviceMemory& memory) {
  NvmlReturn answer = kFunctionNotFound;
  if (api.device_get_memory_v2 != nullptr) {
    MemoryV2 read{};
    read.version = kMemoryV2Version;
    answer = api.device_get_memory_v2(device, &read);
    if (answer == kSuccess) memory = known_memory(read);
  }
  if (is_of_other_version(answer) && api.device_get_memory_v1 != nullptr) {
    MemoryV1 read{};
    answer = api.device_get_memory_v1(device, &read);
    if (answer == kSuccess) memory = known_memory(read);
  }
  return answer;
}

}  // namespace vram::gpu::nvml
