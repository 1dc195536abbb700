// What a block keeps between its forward and its backward, tensor by tensor, as PyTorch's autograd
// keeps it for Transformers' modules with flash attention. Formulas, not a run of the model:
// docs/plan.md states by how much they differ from dry runs.
#pragma once

#include "plan/model/architecture.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vram::plan {

struct Kept {
  std::string what;
  uint64_t bytes = 0;        // for each token
  bool for_weights = false;  // only the gradient of a weight needs it
  bool is_split = false;     // tensor parallelism divides it
};

[[nodiscard]] std::vector<Kept> kept_by(const Block& block, const Task& task);
// By the embedding, and by the norm and head behind the blocks, without the loss.
[[nodiscard]] std::vector<Kept> kept_by_embedding(const Architecture& model, const Task& task);
[[nodiscard]] std::vector<Kept> kept_by_head(const Architecture& model, const Task& task);

// The sum for a token. `tensor`: the degree of tensor parallelism.
[[nodiscard]] uint64_t bytes_of(std::span<const Kept> kept, uint64_t tensor = 1);

// The most that gradients of intermediate results need while a block's backward runs, for a token.
[[nodiscard]] uint64_t backward_bytes(const Block& block, const Task& task, uint64_t tensor = 1);
// The most that a block needs while it runs without keeping anything, for a token.
[[nodiscard]] uint64_t forward_bytes(const Block& block, const Task& task, uint64_t tensor = 1);
// The same of the head of a model that is not causal: the logits of all tokens.
[[nodiscard]] uint64_t head_forward_bytes(const Architecture& model, const Task& task);

// The logits and what the loss makes of them, for a token: while the loss's backward runs.
[[nodiscard]] uint64_t loss_bytes(const Architecture& model, const Task& task);
// The partial results of the gradient of a bias: a sum over tokens, as PyTorch's Reduce.cuh divides
// it among thread blocks.
[[nodiscard]] uint64_t bias_sum_bytes(uint64_t tokens, uint64_t width);
// The gradient of the logits, while the head's backward runs.
[[nodiscard]] uint64_t logit_gradient_bytes(const Architecture& model, const Task& task);

}  // namespace vram::plan
