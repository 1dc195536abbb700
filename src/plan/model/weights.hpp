// The weights of an architecture. Their number is exactly Transformers' own.
#pragma once

#include "plan/model/architecture.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vram::plan {

[[nodiscard]] std::vector<Weight> weights_of(const Block& block);

// The weight and bias that `norm` has for this width.
[[nodiscard]] std::vector<Weight> weights_of(const Norm& norm, uint64_t width,
                                             const std::string& name);

// A linear layer with its bias, if it has one. `is_split`: tensor parallelism divides the matrix.
// It divides the bias too if it divides the outputs.
struct Linear {
  uint64_t outputs = 1;
  uint64_t inputs = 1;
  bool has_bias = false;
  bool divides_outputs = true;
};
void add_linear(std::vector<Weight>& weights, const std::string& name, const Linear& linear);

[[nodiscard]] uint64_t count_of(std::span<const Weight> weights);
// Each parameter once, so a tied matrix counts as the embedding's.
[[nodiscard]] uint64_t parameter_count(const Architecture& model);
// Those that a token uses: of experts, the active ones.
[[nodiscard]] uint64_t active_parameter_count(const Architecture& model);

// The adapters of LoRA: two matrices for each linear layer that has one, as PEFT makes them, in
// fp32.
inline constexpr uint64_t kAdapterNumberBytes = 4;

[[nodiscard]] uint64_t adapter_parameter_count(const Block& block, const Task& task);
// For a token: the adapter's input, and the result of its first matrix.
[[nodiscard]] uint64_t adapter_activation_bytes(const Block& block, const Task& task);

}  // namespace vram::plan
