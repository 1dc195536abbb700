#include "plan/model/weights.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace vram::plan {
namespace {

void add_all(std::vector<Weight>& weights, std::vector<Weight> more) {
  for (Weight& each : more) weights.push_back(std::move(each));
}

void add_attention(std::vector<Weight>& weights, const Block& block) {
  const Attention& attention = block.attention;
  const auto input = [&](const char* name, uint64_t outputs) {
    add_linear(weights, name,
               {.outputs = outputs, .inputs = block.hidden, .has_bias = attention.has_input_bias});
  };
  if (attention.is_fused) {
    input("qkv", attention.query_width() + 2 * attention.kv_width());
  } else {
    input("q", attention.query_width());
    input("k", attention.kv_width());
    input("v", attention.kv_width());
  }
  add_linear(weights, "o",
             {.outputs = block.hidden,
              .inputs = attention.query_width(),
              .has_bias = attention.has_output_bias,
              .divides_outputs = false});
  if (attention.has_head_norm) {
    add_all(weights, weights_of(Norm{}, attention.head_dim, "q_norm"));
    add_all(weights, weights_of(Norm{}, attention.head_dim, "k_norm"));
  }
}

void add_mlp(std::vector<Weight>& weights, const Mlp& mlp, uint64_t hidden) {
  const auto input = [&](const char* name, uint64_t outputs) {
    add_linear(weights, name, {.outputs = outputs, .inputs = hidden, .has_bias = mlp.has_bias});
  };
  if (mlp.inner == 0) return;
  if (mlp.is_gated && mlp.is_fused) {
    input("gate_up", 2 * mlp.inner);
  } else {
    if (mlp.is_gated) input("gate", mlp.inner);
    input("up", mlp.inner);
  }
  add_linear(
      weights, "down",
      {.outputs = hidden, .inputs = mlp.inner, .has_bias = mlp.has_bias, .divides_outputs = false});
}

void add_experts(std::vector<Weight>& weights, const Experts& experts, uint64_t hidden) {
  weights.push_back({.name = "router", .outputs = experts.count, .inputs = hidden});
  weights.push_back({.name = "experts.gate_up",
                     .outputs = 2 * experts.inner,
                     .inputs = hidden,
                     .copies = experts.count,
                     .is_split = true});
  weights.push_back({.name = "experts.down",
                     .outputs = hidden,
                     .inputs = experts.inner,
                     .copies = experts.count,
                     .is_split = true});
  if (experts.has_shared_gate)
    weights.push_back({.name = "shared_gate", .outputs = 1, .inputs = hidden});
}

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

}  // namespace

std::vector<Weight> weights_of(const Norm& norm, uint64_t width, const std::string& name) {
  std::vector<Weight> weights;
  if (norm.has_weight)
    weights.push_back({.name = name, .kind = WeightKind::kVector, .outputs = width});
  if (norm.has_bias)
    weights.push_back({.name = name + ".bias", .kind = WeightKind::kVector, .outputs = width});
  return weights;
}

void add_linear(std::vector<Weight>& weights, const std::string& name, const Linear& linear) {
  weights.push_back(
      {.name = name, .outputs = linear.outputs, .inputs = linear.inputs, .is_split = true});
  if (!linear.has_bias) return;
  weights.push_back({.name = name + ".bias",
                     .kind = WeightKind::kVector,
                     .outputs = linear.outputs,
                     .is_split = linear.divides_outputs});
}

std::vector<Weight> weights_of(const Block& block) {
  std::vector<Weight> weights;
  for (uint64_t i = 0; i < block.norm_count; ++i)
    add_all(weights, weights_of(block.norm, block.hidden, "norm"));
  add_attention(weights, block);
  add_mlp(weights, block.mlp, block.hidden);
  if (block.experts) add_experts(weights, *block.experts, block.hidden);
  return weights;
}

uint64_t count_of(std::span<const Weight> weights) {
  uint64_t count = 0;
  for (const Weight& each : weights) count += each.count();
  return count;
}

uint64_t parameter_count(const Architecture& model) {
  uint64_t count = count_of(model.embedding) + count_of(model.final_norm) + count_of(model.head);
  for (const Block& each : model.blocks) count += count_of(weights_of(each));
  return count;
}

uint64_t active_parameter_count(const Architecture& model) {
  uint64_t unused = 0;
  for (const Block& each : model.blocks) {
    if (!each.experts) continue;
    const uint64_t expert = 3 * each.experts->inner * each.hidden;
    unused += (each.experts->count - each.experts->active) * expert;
  }
  return parameter_count(model) - unused;
}

uint64_t adapter_parameter_count(const Block& block, const Task& task) {
  uint64_t count = 0;
  for (const Weight& each : weights_of(block)) {
    if (has_adapter(each, task.targets)) count += task.rank * (each.inputs + each.outputs);
  }
  return count;
}

namespace {

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
