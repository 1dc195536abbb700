// Architecture: a transformer as its shapes, from which its weights (weights.hpp), what its
// training keeps (activations.hpp) and its memory (memory.hpp) follow. A plain value.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::plan {

// Limits of what a model may state, so that no sum of bytes overflows.
inline constexpr uint64_t kMaxWidth = uint64_t{1} << 24;
inline constexpr uint64_t kMaxLayers = 4096;
inline constexpr uint64_t kMaxPositions = uint64_t{1} << 30;

enum class NormKind : uint8_t {
  kLayer,     // torch.nn.LayerNorm
  kRms,       // in fp32, back in its input's type, then times the weight
  kGemmaRms,  // in fp32 until it is multiplied by the weight
};

struct Norm {
  NormKind kind = NormKind::kRms;
  bool has_weight = true;
  bool has_bias = false;
};

// The functions between the linear layers of an MLP, by what they keep for their backward.
enum class Activation : uint8_t {
  kKeepsInput,   // one kernel: silu, gelu
  kKeepsOutput,  // relu
  kComposed,     // gelu_new: several operators of PyTorch
};

struct Attention {
  uint64_t heads = 1;
  uint64_t kv_heads = 1;
  uint64_t head_dim = 1;
  bool is_fused = false;  // one weight for queries, keys and values
  bool has_input_bias = false;
  bool has_output_bias = false;
  bool has_rotation = true;    // of positions, which makes new queries and keys
  bool has_head_norm = false;  // an RMS norm of each query's and each key's head
  bool copies_values = false;  // out of the fused weight's output, not a view of it
  bool copies_output = false;  // into the order of the next layer, since the rotation changes it
  bool is_eager = false;       // computes the scores of all tokens as a tensor, with limits (tanh)
  bool repeats_keys = false;   // copies keys and values for each query's head, also in the cache
  bool broadcasts_keys = false;      // PyTorch computes their scores as a tensor, and all in fp32
  bool has_mask = false;             // is given its mask as a tensor, also without a window
  std::optional<uint64_t> window{};  // tokens that are attended to and cached; none: all

  // PyTorch's attention has no windows, so it is given a mask, and each query's head a copy of
  // keys.
  [[nodiscard]] bool is_masked(uint64_t sequence) const {
    return has_mask || window.value_or(sequence) < sequence;
  }
  [[nodiscard]] uint64_t query_width() const { return heads * head_dim; }
  [[nodiscard]] uint64_t kv_width() const { return kv_heads * head_dim; }
};

struct Mlp {
  uint64_t inner = 0;  // 0: there is none
  bool is_gated = true;
  bool is_fused = false;  // one weight for the gate and the values
  bool has_bias = false;
  Activation activation = Activation::kKeepsInput;
};

struct Experts {
  uint64_t count = 1;
  uint64_t active = 1;  // for a token
  uint64_t inner = 1;
  bool has_shared_gate = false;  // which weighs the block's own MLP, the shared expert
};

struct Block {
  uint64_t hidden = 1;
  Norm norm;
  uint64_t norm_count = 2;
  uint64_t post_norm_count = 0;  // of these: norms whose output is added to the residual stream
  bool is_parallel = false;      // attention and MLP read the same tensor
  bool has_dropout = false;      // of both outputs
  // Tensors like the residual stream that exist while the MLP runs without gradients: the
  // embedding's output, the block's input, the sum with attention's output, and the norm's output.
  uint64_t held_count = 4;
  Attention attention;
  Mlp mlp;
  std::optional<Experts> experts;
};

enum class WeightKind : uint8_t { kLinear, kEmbedding, kVector };

struct Weight {
  std::string name;
  WeightKind kind = WeightKind::kLinear;
  uint64_t outputs = 1;
  uint64_t inputs = 1;    // 1: a vector
  uint64_t copies = 1;    // of experts
  bool is_split = false;  // tensor parallelism divides it

  [[nodiscard]] uint64_t count() const { return outputs * inputs * copies; }
};

// The modules' names in Transformers, for device maps.
struct ModuleNames {
  std::vector<std::string> before;  // the blocks
  std::string blocks;
  std::vector<std::string> behind;
  std::string head;
};

struct Architecture {
  std::string family;       // model_type
  std::string model_class;  // of Transformers
  std::string layer_class;  // of a block
  uint64_t hidden = 1;
  uint64_t vocabulary = 1;
  uint64_t positions = 1;              // the longest sequence that the model states
  bool has_learned_positions = false;  // it cannot be exceeded
  bool is_causal = true;
  bool is_head_tied = false;  // the head's matrix is the embedding's
  bool has_logit_cap = false;
  bool has_embedding_dropout = false;
  std::vector<Weight> embedding;
  std::vector<Block> blocks;
  std::vector<Weight> final_norm;  // and what else is between the blocks and the head
  std::vector<Weight> head;        // without a tied matrix
  ModuleNames names;
};

// Task: what a model is used for, as far as memory depends on it. A plain value.
enum class Use : uint8_t { kTrain, kLora, kInfer };

enum class Precision : uint8_t {
  kFp32,
  kBf16,      // weights, gradients and optimizer states; fp16 has the same bytes
  kAutocast,  // fp32 weights, computation in bf16
  kMixed,     // bf16 weights and gradients; the optimizer has fp32 weights and states
};

enum class Optimizer : uint8_t { kAdamW, kAdamWFused, kAdamW8bit, kMomentum, kSgd, kAdafactor };

// Of the weights that do not change (--use lora and infer), as bitsandbytes stores them.
enum class Quantization : uint8_t { kInt8, kNf4 };

// The linear layers with an adapter of LoRA.
enum class Targets : uint8_t { kQueryValue, kAttention, kLinear };

struct Task {
  Use use = Use::kTrain;
  Precision precision = Precision::kMixed;
  Optimizer optimizer = Optimizer::kAdamW;
  std::optional<Quantization> quantization{};
  uint64_t batch = 1;
  uint64_t sequence = 1;
  bool checkpoints = false;  // each block keeps its input only, and runs again
  bool accumulates = false;  // gradients exist before the step's first backward
  uint64_t rank = 16;        // of LoRA
  Targets targets = Targets::kLinear;
  uint64_t cached_bytes = 2;  // of a number in the KV cache

  [[nodiscard]] uint64_t tokens() const { return batch * sequence; }
};

// Bytes of a number, by what it is.
struct NumberBytes {
  uint64_t weight = 4;
  uint64_t gradient = 4;
  uint64_t master = 0;    // the optimizer's own copy of the weight
  uint64_t state = 4;     // one of the optimizer's states
  uint64_t compute = 4;   // results of linear layers
  uint64_t residual = 4;  // the residual stream between blocks
};
[[nodiscard]] NumberBytes number_bytes(Precision precision);

inline constexpr uint64_t kFloatBytes = 4;  // of fp32

// A whole that is divided equally: the share of one, rounded up.
[[nodiscard]] constexpr uint64_t divided(uint64_t whole, uint64_t by) {
  return (whole + by - 1) / by;
}

// Limits of a step, so that no sum of bytes overflows.
inline constexpr uint64_t kMaxTokens = uint64_t{1} << 27;

}  // namespace vram::plan
