// Figures that NVML has by number: many in one call, each with its own answer and type. Part of
// Nvml.
#pragma once

#include "gpu/nvml/nvml_api.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace vram::gpu::nvml {

// Fills in the values; where the call itself fails, each has that answer.
void ask_fields(const NvmlApi& api, nvmlDevice device, std::span<FieldValue> values);

[[nodiscard]] FieldValue field(Field number, uint32_t scope = 0);

// As an unsigned whole number; nothing: no answer, a negative value, "not available".
[[nodiscard]] std::optional<uint64_t> known_value(const FieldValue& value);

}  // namespace vram::gpu::nvml
