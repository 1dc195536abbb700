// Asking the library for one figure: what it does not have, does not answer, or can't mean is
// unknown. Part of Nvml.
#pragma once

#include "gpu/nvml/nvml_api.hpp"
#include "gpu/telemetry.hpp"

#include <array>
#include <optional>
#include <string>

namespace vram::gpu::nvml {

// The driver does not have this function or struct; an older one may do. Every other answer would
// be the older one's too.
[[nodiscard]] inline bool is_of_other_version(NvmlReturn answer) {
  return answer == kFunctionNotFound || answer == kArgumentVersionMismatch || answer == kDeprecated;
}

// What a function writes to its last argument.
template <typename Value, typename Function, typename... Args>
[[nodiscard]] std::optional<Value> query(Function* function, Args... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != kSuccess) return std::nullopt;
  return value;
}

template <typename Value>
[[nodiscard]] std::optional<Value> at_most(Value limit, std::optional<Value> value) {
  return value && *value <= limit ? value : std::nullopt;
}

// Instances of a device that is not divided have no number.
[[nodiscard]] inline std::optional<uint32_t> known_instance(uint32_t instance) {
  return instance == kNoInstance ? std::nullopt : std::optional(instance);
}

// A text that one of the functions writes; nobody promises its end.
template <typename Function, typename... Args>
[[nodiscard]] std::optional<std::string> query_text(Function* function, Args... arguments) {
  std::array<char, kTextBytes + 1> text{};
  if (function == nullptr || function(arguments..., text.data(), kTextBytes) != kSuccess)
    return std::nullopt;
  return std::string(text.data());
}

// More than any device has; what is larger is one of the library's ways to say "not available".
inline constexpr uint64_t kMaxBytes = uint64_t{1} << 50U;

// More than any bus or link of a device carries.
inline constexpr uint64_t kMaxBytesPerSecond = 10'000'000'000'000;

// Where the total is not to be believed nothing is: without it the rest can't be judged.
[[nodiscard]] DeviceMemory known_memory(const MemoryV1& read);

// What the newest function that works says, and what it, or the oldest, answered.
NvmlReturn query_memory(const NvmlApi& api, nvmlDevice device, DeviceMemory& memory);

}  // namespace vram::gpu::nvml
