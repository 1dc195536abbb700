// Parts: the bytes of the embedding, each block and the head of a model, for a task: weights,
// gradients and what the optimizer keeps, and what a token adds.
#pragma once

#include "plan/model/architecture.hpp"

#include <cstdint>
#include <vector>

namespace vram::plan {

struct StaticBytes {
  uint64_t weights = 0;
  uint64_t gradients = 0;
  uint64_t optimizer = 0;
  uint64_t step = 0;     // temporaries of the optimizer's step
  uint64_t cast = 0;     // weights that autocast converted, until the backward used them
  uint64_t numbers = 0;  // parameters
  uint64_t trained = 0;  // of these or of adapters

  StaticBytes& operator+=(const StaticBytes& other);
};

// What a part needs for each token.
struct TokenBytes {
  uint64_t kept = 0;      // between forward and backward
  uint64_t backward = 0;  // gradients of results, while its backward runs
  uint64_t forward = 0;   // while it runs without keeping anything
};

// The parts of a model, in the order in which they run.
struct Parts {
  StaticBytes embedding;
  std::vector<StaticBytes> blocks;
  StaticBytes head;  // with the norm before it, without a tied matrix
  StaticBytes tied;  // the head's matrix, if it is the embedding's
  TokenBytes embedding_token;
  std::vector<TokenBytes> block_tokens;
  TokenBytes head_token;
  uint64_t loss_token = 0;            // the logits and what the loss makes of them
  uint64_t logit_gradient_token = 0;  // while the head's backward runs
  uint64_t head_forward_token = 0;    // of a model that is not causal, without gradients
  // The KV cache of each block, for all sequences: with windows, and while the prefill runs, which
  // keeps all tokens.
  std::vector<uint64_t> cache;
  std::vector<uint64_t> prefill_cache;
};
// `tensor`: the cards among which tensor parallelism divides the matrices.
[[nodiscard]] Parts parts_of(const Architecture& model, const Task& task, uint64_t tensor);
// The parameters of the part that has most.
[[nodiscard]] uint64_t largest_part(const Parts& parts);

}  // namespace vram::plan
