#include "gpu/nvml/query.hpp"

namespace vram::gpu::nvml {
namespace {

DeviceMemory without_impossible(DeviceMemory memory) {
  memory.total_bytes = at_most(memory.total_bytes, kMaxBytes);
  if (memory.total_bytes.value_or(0) == 0) return {};
  memory.used_bytes = at_most(memory.used_bytes, *memory.total_bytes);
  memory.free_bytes = at_most(memory.free_bytes, *memory.total_bytes);
  memory.reserved_bytes = at_most(memory.reserved_bytes, *memory.total_bytes);
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

namespace {

std::optional<uint64_t> if_not_negative(int64_t value) {
  return value < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(value));
}

}  // namespace

FieldValue field(Field number, uint32_t scope) {
  FieldValue value{};
  value.field = number;
  value.scope = scope;
  value.result = kNotSupported;
  return value;
}

void query_fields(const NvmlApi& api, nvmlDevice device, std::span<FieldValue> values) {
  const NvmlReturn answer =
      api.device_get_fields == nullptr
          ? kFunctionNotFound
          : api.device_get_fields(device, static_cast<int>(values.size()), values.data());
  if (answer == kSuccess) return;
  for (FieldValue& value : values) value.result = answer;
}

std::optional<uint64_t> known_value(const FieldValue& value) {
  if (value.result != kSuccess) return std::nullopt;
  switch (value.type) {
    case kTypeUnsigned:
      if (value.value.as_u32 == UINT32_MAX) return std::nullopt;
      return value.value.as_u32;
    case kTypeUnsignedLong:
    case kTypeUnsignedLongLong:
      if (value.value.as_u64 == kNotAvailable) return std::nullopt;
      return value.value.as_u64;
    case kTypeLongLong:
      return if_not_negative(value.value.as_i64);
    case kTypeInt:
      return if_not_negative(value.value.as_i32);
    case kTypeUnsignedShort:
      return value.value.as_u16;
    default:  // a fraction, or a type that came later
      return std::nullopt;
  }
}

bool is_narrow(const FieldValue& value) {
  return value.result == kSuccess && (value.type == kTypeUnsigned || value.type == kTypeInt ||
                                      value.type == kTypeUnsignedShort);
}

std::optional<uint64_t> known_counter(const FieldValue& value) {
  return is_narrow(value) ? std::nullopt : known_value(value);
}

}  // namespace vram::gpu::nvml
