// The adapters of LoRA: two matrices for each linear layer that has one, as PEFT makes them, in
// fp32.
#pragma once

#include "plan/model/architecture.hpp"
#include "plan/model/task.hpp"

#include <cstdint>

namespace vram::plan {

inline constexpr uint64_t kAdapterNumberBytes = 4;

[[nodiscard]] uint64_t adapter_parameter_count(const Block& block, const Task& task);
// For a token: the adapter's input, and the result of its first matrix.
[[nodiscard]] uint64_t adapter_activation_bytes(const Block& block, const Task& task);

}  // namespace vram::plan
