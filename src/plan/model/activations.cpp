#include "plan/model/activations.hpp"

#include "plan/model/weights.hpp"

#include <algorithm>
#include <utility>

namespace vram::plan {
namespace {

constexpr uint64_t kIndexBytes = 8;
constexpr uint64_t kMaskBytes = 1;  // of dropout

// Collects what is kept. `numbers` are for each token.
class Collector {
 public:
  explicit Collector(const Task& task)
      : bytes_(number_bytes(task.precision)),
        is_autocast_(task.precision == Precision::kAutocast),
        trains_weights_(task.use == Use::kTrain) {}

  [[nodiscard]] const NumberBytes& bytes() const { return bytes_; }

  void add(std::string what, uint64_t bytes, bool is_split = false) {
    kept_.push_back({std::move(what), bytes, false, is_split});
  }
  // Left out if the weight is frozen.
  void add_for_weights(std::string what, uint64_t bytes, bool is_split = false) {
    if (trains_weights_) kept_.push_back({std::move(what), bytes, true, is_split});
  }
  // The input of linear layers, of which `readers` read it. Autocast converts it for each.
  void add_linear_input(std::string what, uint64_t width, uint64_t readers) {
    add_for_weights(std::move(what), width * bytes_.compute * (is_autocast_ ? readers : 1));
  }
  void add_norm(const Norm& norm, const std::string& what, uint64_t width, bool shares_input) {
    if (norm.kind == NormKind::kLayer) {
      if (!shares_input) add(what + " input", width * bytes_.residual);
      add(what + " statistics", 2 * kFloatBytes);
      return;
    }
    add(what + " input in fp32", width * kFloatBytes);
    add(what + " statistics", kFloatBytes);
    add_for_weights(what + " normalized",
                    width * (norm.kind == NormKind::kRms ? bytes_.residual : kFloatBytes));
  }
  void add_dropout(const std::string& what, uint64_t width) { add(what, width * kMaskBytes); }

  [[nodiscard]] std::vector<Kept> finish() { return std::move(kept_); }

 private:
  NumberBytes bytes_;
  bool is_autocast_;
  bool trains_weights_;
  std::vector<Kept> kept_;
};

// Norms of each head run on the outputs of linear layers.
void add_head_norm(Collector& kept, const Norm& norm, const char* what, uint64_t width,
                   uint64_t heads) {
  kept.add(std::string(what) + " in fp32", width * kFloatBytes, true);
  kept.add(std::string(what) + " statistics", heads * kFloatBytes, true);
  kept.add_for_weights(std::string(what) + " normalized",
                       width * (norm.kind == NormKind::kRms ? kept.bytes().compute : kFloatBytes),
                       true);
}

bool repeats_keys(const Attention& attention, uint64_t sequence) {
  return attention.repeats_keys || attention.is_masked(sequence);
}

// PyTorch has no kernel for grouped heads in fp32, so it computes the scores as a tensor.
bool has_scores(const Attention& attention, uint64_t number, uint64_t sequence) {
  const bool is_grouped =
      attention.kv_heads < attention.heads && !repeats_keys(attention, sequence);
  return attention.is_eager || attention.broadcasts_keys || (number == kFloatBytes && is_grouped);
}

// Bytes of a number inside attention.
uint64_t attention_number(const Attention& attention, const NumberBytes& bytes) {
  return attention.broadcasts_keys ? kFloatBytes : bytes.compute;
}

// Bytes for each head and each pair of tokens: the limited scores, their softmax in fp32, and that
// in the type of the values. PyTorch's own attention keeps the softmax only.
uint64_t score_bytes(const Attention& attention, uint64_t number) {
  if (!attention.is_eager) return kFloatBytes;
  return number == kFloatBytes ? 2 * kFloatBytes : 2 * number + kFloatBytes;
}

void add_attention(Collector& kept, const Block& block, uint64_t sequence) {
  const Attention& attention = block.attention;
  const uint64_t number = attention_number(attention, kept.bytes());
  const uint64_t queries = attention.query_width();
  const bool is_computed = has_scores(attention, number, sequence);
  const bool repeats = repeats_keys(attention, sequence) || is_computed;
  const uint64_t keys = repeats ? queries : attention.kv_width();
  if (attention.has_head_norm) {
    add_head_norm(kept, block.norm, "query norm", queries, attention.heads);
    add_head_norm(kept, block.norm, "key norm", attention.kv_width(), attention.kv_heads);
  }
  const uint64_t fused = queries + 2 * attention.kv_width();
  const bool views_fused = attention.is_fused && !attention.copies_values;
  if (views_fused) kept.add("queries, keys, values", fused * number, true);
  if (!views_fused || attention.has_rotation) {
    kept.add("queries", queries * number, true);
    kept.add("keys", keys * number, true);
  }
  if (!views_fused) kept.add("values", keys * number, true);
  kept.add("attention output", queries * number, true);
  // Flash attention, which does not exist in fp32, returns the order of its input.
  if (attention.copies_output && number < kFloatBytes)
    kept.add_for_weights("a copy of it", queries * number, true);
  if (is_computed) {
    const uint64_t pairs = attention.heads * sequence;
    kept.add("attention scores", pairs * score_bytes(attention, number), true);
  } else {
    kept.add("attention statistics", attention.heads * kFloatBytes, true);
    if (attention.is_masked(sequence)) kept.add("attention mask", sequence * number);
  }
}

void add_activation(Collector& kept, const Mlp& mlp) {
  const uint64_t number = kept.bytes().compute;
  switch (mlp.activation) {
    case Activation::kKeepsInput:
      kept.add("activation input", mlp.inner * number, true);
      break;
    case Activation::kKeepsOutput:
      if (!mlp.is_gated) kept.add("activation output", mlp.inner * number, true);
      break;
    case Activation::kComposed:
      // x³ reads x in the type of the residual stream; so do tanh and what follows.
      kept.add("activation input", mlp.inner * kept.bytes().residual, true);
      kept.add("half of it", mlp.inner * number, true);
      kept.add("tanh", 2 * mlp.inner * kept.bytes().residual, true);
      break;
  }
}

void add_dense(Collector& kept, const Mlp& mlp) {
  if (mlp.inner == 0) return;
  const uint64_t bytes = mlp.inner * kept.bytes().compute;
  add_activation(kept, mlp);
  if (mlp.is_gated) {
    kept.add("activation output", bytes, true);
    kept.add("gated values", bytes, true);
  }
  if (mlp.is_gated || mlp.activation != Activation::kKeepsOutput)
    kept.add_for_weights("MLP output's input", bytes, true);
}

// Each token is copied for each of its experts. Autocast does not convert their products.
void add_experts(Collector& kept, const Experts& experts, uint64_t hidden) {
  const uint64_t number = kept.bytes().residual;
  kept.add("router", experts.count * kFloatBytes);
  kept.add_for_weights("experts' input", experts.active * hidden * number);
  kept.add("experts' gates and values", 3 * experts.active * experts.inner * number, true);
  kept.add_for_weights("experts' product", experts.active * experts.inner * number, true);
  kept.add("experts' output", experts.active * hidden * number);
}

// How many linear layers read the input of attention, and of the MLP.
uint64_t attention_readers(const Block& block) { return block.attention.is_fused ? 1 : 3; }
uint64_t mlp_readers(const Block& block) {
  const uint64_t dense = block.mlp.inner == 0                        ? 0
                         : block.mlp.is_gated && !block.mlp.is_fused ? 2
                                                                     : 1;
  return dense + (block.experts ? 1 : 0);
}

void add_norms(Collector& kept, const Block& block, uint64_t first, uint64_t last) {
  for (uint64_t i = first; i < last; ++i) {
    const bool shares_input = i > 0 && block.is_parallel;
    kept.add_norm(block.norm, fmt::format("norm {}", i + 1), block.hidden, shares_input);
  }
}

// Whether attention and MLP read the output of the same norm.
bool reads_one(const Block& block) { return block.is_parallel && block.norm_count == 1; }

void add_mlp(Collector& kept, const Block& block) {
  if (!reads_one(block)) kept.add_linear_input("MLP input", block.hidden, mlp_readers(block));
  add_dense(kept, block.mlp);
  if (block.experts) add_experts(kept, *block.experts, block.hidden);
}

// By the MLP alone, with its norms.
std::vector<Kept> kept_by_mlp(const Block& block, const Task& task) {
  Collector kept(task);
  add_norms(kept, block, (block.norm_count + 1) / 2, block.norm_count);
  add_mlp(kept, block);
  return kept.finish();
}

// The widest tensor of a token inside an MLP of the block.
uint64_t inner_bytes(const Block& block, const NumberBytes& bytes, uint64_t tensor) {
  const uint64_t experts = block.experts ? block.experts->active * block.experts->inner : 0;
  return std::max(divided(block.mlp.inner, tensor) * bytes.compute,
                  divided(experts, tensor) * bytes.residual);
}

// Of tokens that an MLP computes, the most at one time.
uint64_t mlp_bytes(const Block& block, const NumberBytes& bytes, uint64_t tensor) {
  const uint64_t dense_count = block.mlp.is_gated                              ? 3
                               : block.mlp.activation == Activation::kComposed ? 4
                                                                               : 2;
  const uint64_t dense = dense_count * divided(block.mlp.inner, tensor) * bytes.compute;
  if (!block.experts) return dense;
  const Experts& experts = *block.experts;
  const uint64_t numbers = block.hidden + 4 * divided(experts.inner, tensor);
  return std::max(dense, experts.active * numbers * bytes.residual);
}

// The same of attention that computes its scores: they, their softmax, queries, keys and values.
uint64_t score_forward_bytes(const Block& block, const NumberBytes& bytes, uint64_t sequence,
                             uint64_t tensor) {
  const Attention& attention = block.attention;
  const uint64_t number = attention_number(attention, bytes);
  const uint64_t pair = number + (attention.is_eager ? number + kFloatBytes : number);
  const uint64_t widths = 6 * attention.query_width() + attention.kv_width();
  return divided(attention.heads * sequence * pair + widths * number, tensor);
}

}  // namespace

NumberBytes number_bytes(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return {};
    case Precision::kBf16:
      return {.weight = 2, .gradient = 2, .master = 0, .state = 2, .compute = 2, .residual = 2};
    case Precision::kAutocast:
      return {.weight = 4, .gradient = 4, .master = 0, .state = 4, .compute = 2, .residual = 4};
    case Precision::kMixed:
      return {.weight = 2, .gradient = 2, .master = 4, .state = 4, .compute = 2, .residual = 2};
  }
  return {};
}

std::vector<Kept> kept_by(const Block& block, const Task& task) {
  Collector kept(task);
  add_norms(kept, block, 0, block.norm_count);
  kept.add_linear_input("attention input", block.hidden,
                        attention_readers(block) + (reads_one(block) ? mlp_readers(block) : 0));
  add_attention(kept, block, task.sequence);
  add_mlp(kept, block);
  if (block.has_dropout) kept.add_dropout("dropout", 2 * block.hidden);
  if (task.use == Use::kLora) kept.add("adapters", adapter_activation_bytes(block, task));
  return kept.finish();
}

std::vector<Kept> kept_by_embedding(const Architecture& model, const Task& task) {
  Collector kept(task);
  kept.add("tokens", 2 * kIndexBytes);  // and labels
  if (model.has_embedding_dropout) kept.add_dropout("dropout", model.hidden);
  return kept.finish();
}

std::vector<Kept> kept_by_head(const Architecture& model, const Task& task) {
  Collector kept(task);
  const bool has_norm = !model.final_norm.empty();
  const Norm norm = model.blocks.front().norm;
  if (has_norm || !model.is_causal) kept.add_norm(norm, "final norm", model.hidden, false);
  if (!model.is_causal) {
    kept.add_linear_input("transform's input", model.hidden, 1);
    kept.add("activation input", model.hidden * kept.bytes().compute);
  }
  kept.add_linear_input("head's input", model.hidden, 1);
  if (model.has_logit_cap) kept.add("capped logits", model.vocabulary * kept.bytes().compute, true);
  return kept.finish();
}

uint64_t bytes_of(std::span<const Kept> kept, uint64_t tensor) {
  uint64_t bytes = 0;
  for (const Kept& each : kept) bytes += each.is_split ? divided(each.bytes, tensor) : each.bytes;
  return bytes;
}

uint64_t backward_bytes(const Block& block, const Task& task, uint64_t tensor) {
  const NumberBytes bytes = number_bytes(task.precision);
  const uint64_t inner = inner_bytes(block, bytes, tensor);
  const uint64_t gradients = block.mlp.is_gated || block.experts ? 3 : 2;
  const uint64_t mlp = 2 * block.hidden * bytes.residual + gradients * inner;
  if (!has_scores(block.attention, bytes.compute, task.sequence)) return mlp;
  // The gradients of scores, also in fp32. What the MLP kept is free then.
  const uint64_t scores = divided(block.attention.heads, tensor) * task.sequence *
                          (attention_number(block.attention, bytes) + kFloatBytes);
  const uint64_t freed = bytes_of(kept_by_mlp(block, task), tensor);
  return std::max(mlp, scores - std::min(scores, freed));
}

uint64_t forward_bytes(const Block& block, const Task& task, uint64_t tensor) {
  const NumberBytes bytes = number_bytes(task.precision);
  const Attention& attention = block.attention;
  const uint64_t rotation = attention.has_rotation ? 2 * attention.head_dim * bytes.residual : 0;
  const uint64_t mask = attention.is_masked(task.sequence) ? task.sequence : 0;  // a byte each
  const uint64_t stream = block.hidden * bytes.residual;
  const uint64_t mlp = block.held_count * stream + mlp_bytes(block, bytes, tensor);
  uint64_t most = mlp;
  if (has_scores(attention, bytes.compute, task.sequence))
    most = std::max(most, 3 * stream + score_forward_bytes(block, bytes, task.sequence, tensor));
  return rotation + mask + most;
}

uint64_t head_forward_bytes(const Architecture& model, const Task& task) {
  const NumberBytes bytes = number_bytes(task.precision);
  return model.vocabulary * bytes.compute + 2 * model.hidden * bytes.residual;
}

uint64_t loss_bytes(const Architecture& model, const Task& task) {
  const uint64_t compute = number_bytes(task.precision).compute;
  // Of causal models, the loss converts logits to fp32. Its backward holds the logarithms of the
  // probabilities, their gradient, and the gradient of the logits. Of others, autocast converts
  // them: the loss holds the logits, and their conversion and the logarithms in fp32.
  if (model.is_causal) return 3 * model.vocabulary * kFloatBytes;
  if (task.precision == Precision::kAutocast) return model.vocabulary * (2 * kFloatBytes + compute);
  return 3 * model.vocabulary * compute;
}

uint64_t bias_sum_bytes(uint64_t tokens, uint64_t width) {
  constexpr uint64_t kThreads = 512;  // of a block, of which a warp's share one row
  constexpr uint64_t kWarp = 32;
  constexpr uint64_t kThreadsOfGpu = uint64_t{132} * 2048;  // of an H100 and an H200
  constexpr uint64_t kMinValues = 16;                       // of a thread
  constexpr uint64_t kMaxValues = 256;
  const uint64_t vector = width % 4 == 0 ? 4 : width % 2 == 0 ? 2 : 1;
  const uint64_t block = kThreads / vector;
  const uint64_t values = divided(tokens, block / kWarp);
  const uint64_t blocks_of_outputs = divided(width / vector, kWarp);
  const uint64_t target = kThreadsOfGpu / block;
  if (values < kMaxValues || blocks_of_outputs > target) return 0;
  const uint64_t blocks =
      std::max(std::min(divided(target, blocks_of_outputs), divided(values, kMinValues)),
               divided(values, kMaxValues));
  return blocks < 2 ? 0 : kFloatBytes * width * blocks * kWarp * vector;
}

uint64_t logit_gradient_bytes(const Architecture& model, const Task& task) {
  return model.vocabulary * number_bytes(task.precision).compute;
}

}  // namespace vram::plan
