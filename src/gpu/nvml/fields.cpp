#include "gpu/nvml/fields.hpp"

namespace vram::gpu::nvml {
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
