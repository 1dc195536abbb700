// Queries single figures from the library: unsupported, failed or impossible ones are unknown. Part
// of Nvml.
#pragma once

#include "gpu/nvml/nvml_api.hpp"
#include "gpu/telemetry.hpp"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace vram::gpu::nvml {

// The driver does not have this function or struct; an older one may do. Every other answer would
// be the older one's too.
[[nodiscard]] inline bool is_of_other_version(NvmlReturn answer) {
  return answer == kFunctionNotFound || answer == kArgumentVersionMismatch || answer == kDeprecated;
}

// Returns the value that a function writes to its last argument.
template <typename Value, typename Function, typename... Args>
[[nodiscard]] std::optional<Value> query(Function* function, Args... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != kSuccess) return std::nullopt;
  return value;
}

// The same of the first of these functions that the library has.
template <typename Value, typename... Args>
[[nodiscard]] std::optional<Value> query_first(const NvmlApi& api,
                                               std::initializer_list<const char*> names,
                                               nvmlDevice device, Args... arguments) {
  return query<Value>(api.find_first<NvmlApi::Of<Args..., Value*>>(names), device, arguments...);
}

template <typename Value>
[[nodiscard]] std::optional<Value> at_most(std::optional<Value> value, Value limit) {
  return value && *value <= limit ? value : std::nullopt;
}

// Instances of a device that is not divided have no number.
[[nodiscard]] inline std::optional<uint32_t> known_instance(uint32_t instance) {
  return instance == kNoInstance ? std::nullopt : std::optional(instance);
}

// Returns a text that a function writes; its termination is not guaranteed.
template <typename Function, typename... Args>
[[nodiscard]] std::optional<std::string> query_text(Function* function, Args... arguments) {
  std::array<char, kTextBytes + 1> text{};
  if (function == nullptr || function(arguments..., text.data(), kTextBytes) != kSuccess)
    return std::nullopt;
  return std::string(text.data());
}

// More than any device has; the library uses larger values for "not available".
inline constexpr uint64_t kMaxBytes = uint64_t{1} << 50U;

// More than any GPU draws, or may draw.
inline constexpr uint32_t kMaxMilliwatts = 100'000'000;

// More than any bus or link of a device carries.
inline constexpr uint64_t kMaxBytesPerSecond = 10'000'000'000'000;

// If the total is impossible, everything is unknown: the other values cannot be checked without it.
[[nodiscard]] DeviceMemory known_memory(const MemoryV1& read);

// Reads memory with the newest function that works. Returns its result, or that of the oldest.
NvmlReturn query_memory(const NvmlApi& api, nvmlDevice device, DeviceMemory& memory);

// Figures that NVML has by number: many in one call, each with its own answer and type. Part of
// Nvml.

// Fills in the values; if the call itself fails, each gets that result.
void query_fields(const NvmlApi& api, nvmlDevice device, std::span<FieldValue> values);

[[nodiscard]] FieldValue field(Field number, uint32_t scope = 0);

// Returns an unsigned integer; nothing for an error, a negative value, or "not available".
[[nodiscard]] std::optional<uint64_t> known_value(const FieldValue& value);

// Returns a 64-bit counter. Narrower ones overflow many times a second on a busy bus, so that
// neither the value nor its difference is meaningful.
[[nodiscard]] std::optional<uint64_t> known_counter(const FieldValue& value);
[[nodiscard]] bool is_narrow(const FieldValue& value);

}  // namespace vram::gpu::nvml
