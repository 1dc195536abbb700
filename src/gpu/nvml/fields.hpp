// Figures that NVML has by number: many in one call, each with its own answer and type. Part of
// Nvml.
#pragma once

#include "gpu/nvml/nvml_api.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace vram::gpu::nvml {

// Fills in the values; where the call itself fails, each has that answer.
void query_fields(const NvmlApi& api, nvmlDevice device, std::span<FieldValue> values);

[[nodiscard]] FieldValue field(Field number, uint32_t scope = 0);

// As an unsigned whole number; nothing: no answer, a negative value, "not available".
[[nodiscard]] std::optional<uint64_t> known_value(const FieldValue& value);

// Of a counter: known where it has 64 bits. A narrower one begins anew many times a second on a
// busy bus, so that neither it nor its growth says anything.
[[nodiscard]] std::optional<uint64_t> known_counter(const FieldValue& value);
[[nodiscard]] bool is_narrow(const FieldValue& value);

}  // namespace vram::gpu::nvml
