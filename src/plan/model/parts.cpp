#include "plan/model/parts.hpp"

#include "plan/model/activations.hpp"
#include "plan/model/weights.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace vram::plan {
namespace {

// 8-bit states have a scale in fp32 for each block of so many numbers.
constexpr uint64_t kStateBlock = 256;
// NF4 has two numbers in a byte and a scale in fp32 for each block of so many numbers.
constexpr uint64_t kNf4Block = 64;

uint64_t weight_bytes(const Weight& weight, uint64_t count, const Task& task, uint64_t number) {
  if (task.quantization && weight.kind == WeightKind::kLinear && weight.name != "head") {
    if (*task.quantization == Quantization::kNf4)
      return count / 2 + count / kNf4Block * kFloatBytes;
    return count + weight.outputs * weight.copies * kFloatBytes;  // a scale for each row
  }
  return count * number;
}

// What the optimizer keeps for a weight, without a copy of the weight.
uint64_t state_bytes(const Weight& weight, uint64_t count, const Task& task, uint64_t number) {
  switch (task.optimizer) {
    case Optimizer::kAdamW:
    case Optimizer::kAdamWFused:
      return 2 * count * number;
    case Optimizer::kAdamW8bit:
      if (weight.inputs == 1) return 2 * count * kFloatBytes;
      return 2 * (count + count / kStateBlock * kFloatBytes);
    case Optimizer::kMomentum:
      return count * number;
    case Optimizer::kSgd:
      return 0;
    case Optimizer::kAdafactor:
      if (weight.inputs == 1) return count * kFloatBytes;
      return (weight.outputs + weight.inputs) * weight.copies * kFloatBytes;
  }
  return 0;
}

// PyTorch's AdamW without fused=True makes the square roots of all second moments at once. With
// fp32 weights in the optimizer (Precision::kMixed), the frameworks use fused kernels. Adafactor
// goes through the weights one by one.
uint64_t step_bytes(uint64_t count, const Task& task, uint64_t number) {
  if (task.optimizer == Optimizer::kAdamW && task.precision != Precision::kMixed)
    return count * number;
  return 0;
}

StaticBytes adapter_bytes(uint64_t count, const Task& task) {
  const Weight weight = {.name = "adapter", .outputs = count, .inputs = 2};
  StaticBytes bytes;
  bytes.weights = bytes.gradients = count * kAdapterNumberBytes;
  bytes.optimizer = state_bytes(weight, count, task, kAdapterNumberBytes);
  bytes.step = task.optimizer == Optimizer::kAdamW ? count * kAdapterNumberBytes : 0;
  bytes.trained = count;
  return bytes;
}

// Autocast converts what linear layers multiply with, once for a step; not those of experts.
bool is_cast(const Weight& weight, const Task& task) {
  return task.precision == Precision::kAutocast && task.use != Use::kInfer &&
         weight.kind != WeightKind::kEmbedding && weight.copies == 1 &&
         weight.name.find("norm") == std::string::npos;
}

StaticBytes static_bytes(std::span<const Weight> weights, const Task& task, uint64_t tensor,
                         uint64_t adapters = 0) {
  const NumberBytes number = number_bytes(task.precision);
  StaticBytes bytes;
  for (const Weight& each : weights) {
    const uint64_t count = divided(each.count(), each.is_split ? tensor : 1);
    bytes.numbers += count;
    bytes.weights += weight_bytes(each, count, task, number.weight);
    if (is_cast(each, task)) bytes.cast += count * number.compute;
    if (task.use != Use::kTrain) continue;
    bytes.trained += count;
    bytes.gradients += count * number.gradient;
    bytes.optimizer += count * number.master + state_bytes(each, count, task, number.state);
    bytes.step += step_bytes(count, task, number.state);
  }
  if (adapters > 0) bytes += adapter_bytes(divided(adapters, tensor), task);
  return bytes;
}

TokenBytes token_bytes(const Block& block, const Task& task, uint64_t tensor) {
  return {.kept = bytes_of(kept_by(block, task), tensor),
          .backward = backward_bytes(block, task, tensor),
          .forward = forward_bytes(block, task, tensor)};
}

// Each card has at least one head.
uint64_t cache_bytes(const Attention& attention, const Task& task, uint64_t tensor,
                     uint64_t tokens) {
  const uint64_t heads =
      divided(attention.repeats_keys ? attention.heads : attention.kv_heads, tensor);
  return 2 * heads * attention.head_dim * tokens * task.batch * task.cached_bytes;
}

void add_head(Parts& parts, const Architecture& model, const Task& task, uint64_t tensor) {
  std::vector<Weight> head = model.final_norm;
  head.insert(head.end(), model.head.begin(), model.head.end());
  parts.head = static_bytes(head, task, tensor);
  if (!model.is_head_tied) return;
  const Weight tied = {
      .name = "head", .outputs = model.vocabulary, .inputs = model.hidden, .is_split = true};
  parts.tied = static_bytes(std::span(&tied, 1), task, tensor);
}

}  // namespace

StaticBytes& StaticBytes::operator+=(const StaticBytes& other) {
  weights += other.weights;
  gradients += other.gradients;
  optimizer += other.optimizer;
  step += other.step;
  cast += other.cast;
  numbers += other.numbers;
  trained += other.trained;
  return *this;
}

Parts parts_of(const Architecture& model, const Task& task, uint64_t tensor) {
  Parts parts;
  parts.embedding = static_bytes(model.embedding, task, tensor);
  for (const Block& block : model.blocks) {
    const uint64_t adapters = task.use == Use::kLora ? adapter_parameter_count(block, task) : 0;
    parts.blocks.push_back(static_bytes(weights_of(block), task, tensor, adapters));
    parts.block_tokens.push_back(token_bytes(block, task, tensor));
    const uint64_t longest = model.is_causal ? task.sequence : 0;
    const uint64_t window = std::min(longest, block.attention.window.value_or(longest));
    parts.cache.push_back(cache_bytes(block.attention, task, tensor, window));
    parts.prefill_cache.push_back(cache_bytes(block.attention, task, tensor, longest));
  }
  add_head(parts, model, task, tensor);
  parts.embedding_token.kept = bytes_of(kept_by_embedding(model, task), tensor);
  parts.head_token.kept = bytes_of(kept_by_head(model, task), tensor);
  if (!model.is_causal) parts.head_forward_token = divided(head_forward_bytes(model, task), tensor);
  parts.loss_token = divided(loss_bytes(model, task), tensor);
  parts.logit_gradient_token = divided(logit_gradient_bytes(model, task), tensor);
  return parts;
}

uint64_t largest_part(const Parts& parts) {
  uint64_t largest = std::max(parts.embedding.numbers, parts.head.numbers);
  for (const StaticBytes& each : parts.blocks) largest = std::max(largest, each.numbers);
  return largest;
}

}  // namespace vram::plan
