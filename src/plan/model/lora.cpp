#include "plan/model/lora.hpp"

#include "plan/model/activations.hpp"
#include "plan/model/weights.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace vram::plan {
namespace {

// Experts and the router get no adapters.
bool has_adapter(const Weight& weight, Targets targets) {
  constexpr std::array<std::string_view, 3> kQueryValue = {"q", "v", "qkv"};
  constexpr std::array<std::string_view, 5> kAttention = {"q", "k", "v", "qkv", "o"};
  constexpr std::array<std::string_view, 4> kMlp = {"gate", "up", "gate_up", "down"};
  const auto is_in = [&](const auto& names) {
    return std::ranges::find(names, weight.name) != names.end();
  };
  if (targets == Targets::kQueryValue) return is_in(kQueryValue);
  return is_in(kAttention) || (targets == Targets::kLinear && is_in(kMlp));
}

// In fp32 nothing is converted: adapters of one input share it, and attention keeps its output.
uint64_t shared_input_numbers(const Block& block, const Task& task) {
  bool has_attention = false;
  bool has_mlp = false;
  uint64_t inner = 0;
  for (const Weight& each : weights_of(block)) {
    if (!has_adapter(each, task.targets)) continue;
    if (each.name == "q" || each.name == "k" || each.name == "v" || each.name == "qkv")
      has_attention = true;
    else if (each.name == "gate" || each.name == "up" || each.name == "gate_up")
      has_mlp = true;
    else if (each.name == "down")
      inner = each.inputs;
  }
  const bool is_one = block.is_parallel && block.norm_count == 1;
  if (is_one && has_attention) has_mlp = false;
  if (!block.mlp.is_gated && block.mlp.activation == Activation::kKeepsOutput) inner = 0;
  return (uint64_t{has_attention} + uint64_t{has_mlp}) * block.hidden + inner;
}

}  // namespace

uint64_t adapter_parameter_count(const Block& block, const Task& task) {
  uint64_t count = 0;
  for (const Weight& each : weights_of(block)) {
    if (has_adapter(each, task.targets)) count += task.rank * (each.inputs + each.outputs);
  }
  return count;
}

uint64_t adapter_activation_bytes(const Block& block, const Task& task) {
  const bool is_shared = task.precision == Precision::kFp32;
  uint64_t numbers = is_shared ? shared_input_numbers(block, task) : 0;
  for (const Weight& each : weights_of(block)) {
    if (has_adapter(each, task.targets)) numbers += task.rank + (is_shared ? 0 : each.inputs);
  }
  // Autocast converts the input for each adapter again.
  const bool is_cast = task.precision == Precision::kAutocast;
  return numbers * (is_cast ? number_bytes(task.precision).compute : kAdapterNumberBytes);
}

}  // namespace vram::plan
