// Figures that NVML has by number: many in one call, each with its own answer and type. Part of
// Nvml.
#pragma once

#include "gpu/nvml/nvml_api.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace vram::gpu::nvml {

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
