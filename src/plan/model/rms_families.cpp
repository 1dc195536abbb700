// Families that are built like Llama.
#include "plan/model/families.hpp"
#include "plan/model/weights.hpp"

#include <utility>

namespace vram::plan::families {
namespace {

// Transformers' defaults.
constexpr uint64_t kDefaultWindow = 4096;
constexpr uint64_t kQwenFullLayers = 28;

const ModuleNames kNames = {
    {"model.embed_tokens"}, "model.layers", {"model.norm", "model.rotary_emb"}, "lm_head"};

struct Variant {
  Norm norm = {};
  bool is_tied = false;
  const char* activation = "hidden_act";
  const char* default_activation = "silu";
  bool needs_kv_heads = true;
  uint64_t head_dim = 0;
};

void build(Config& config, Architecture& model, const Variant& variant = {}) {
  read_sizes(config, model, variant.norm,
             {.needs_kv_heads = variant.needs_kv_heads, .head_dim = variant.head_dim});
  const Mlp mlp = {
      .inner = config.required("intermediate_size"),
      .activation = read_activation(config, variant.activation, variant.default_activation)};
  each_block(model, [&](Block& block, size_t) { block.mlp = mlp; });
  add_ends(config, model, variant.is_tied);
  model.names = kNames;
}

void set_attention_bias(Config& config, Architecture& model) {
  const bool has_bias = config.flag("attention_bias", false);
  each_block(model, [&](Block& block, size_t) {
    block.attention.has_input_bias = block.attention.has_output_bias = has_bias;
  });
}

// "layer_types" says which blocks have a window; without it, `has_window` does. `absent`: the
// window if the config does not have one.
template <typename HasWindow>
void set_windows(Config& config, Architecture& model, HasWindow has_window,
                 std::optional<uint64_t> absent = {}) {
  const auto window = config.optional("sliding_window", absent);
  if (!window) return;
  const Json* types = config.array("layer_types");
  if (types != nullptr && types->size() != model.blocks.size()) {
    config.refuse(Code::kBadInput, tr_later("\"layer_types\" has {} entries for {} layers"),
                  types->size(), model.blocks.size());
    return;
  }
  each_block(model, [&](Block& block, size_t i) {
    const bool is_windowed = types != nullptr ? (*types)[i] == "sliding_attention" : has_window(i);
    if (is_windowed) block.attention.window = window;
  });
}

void set_head_norms(Architecture& model) {
  each_block(model, [](Block& block, size_t) { block.attention.has_head_norm = true; });
}

bool is_listed(const Json* numbers, size_t index) {
  if (numbers == nullptr) return false;
  for (const Json& each : *numbers) {
    if (each == index) return true;
  }
  return false;
}

// Blocks with experts have a shared MLP of `shared` instead of the dense one.
void set_experts(Config& config, Architecture& model, const Experts& experts, uint64_t shared) {
  const uint64_t step = config.number("decoder_sparse_step", 1);
  const Json* dense = config.array("mlp_only_layers");
  if (experts.active > experts.count)
    config.refuse(Code::kBadInput,
                  tr_later("\"num_experts_per_tok\" is {}, more than the {} experts"),
                  experts.active, experts.count);
  each_block(model, [&](Block& block, size_t i) {
    if (is_listed(dense, i) || (i + 1) % step != 0) return;
    block.experts = experts;
    block.mlp.inner = shared;
  });
}

Experts read_experts(Config& config, const char* count, const char* inner) {
  return {.count = config.required(count, kMaxLayers),
          .active = config.required("num_experts_per_tok", kMaxLayers),
          .inner = config.required(inner)};
}

// Transformers 5 writes the other name.
const char* qwen_experts(const Config& config) {
  return config.has("num_local_experts") ? "num_local_experts" : "num_experts";
}

// Of Qwen: unless it is switched on there is none, and the first layers never have one.
void set_later_windows(Config& config, Architecture& model) {
  const uint64_t full_layers = config.optional("max_window_layers", kQwenFullLayers).value_or(0);
  if (config.flag("use_sliding_window", false))
    set_windows(config, model, [&](size_t i) { return i >= full_layers; }, kDefaultWindow);
}

constexpr auto kEvery = [](size_t) { return true; };

void gemma_with_post_norms(Config& config, Architecture& model, double default_cap) {
  build(config, model,
        {.norm = {.kind = NormKind::kGemmaRms},
         .is_tied = true,
         .activation = "hidden_activation",
         .default_activation = "gelu_pytorch_tanh",
         .head_dim = 256});
  set_attention_bias(config, model);
  each_block(model, [](Block& block, size_t) {
    block.norm_count = 4;
    block.post_norm_count = 2;
  });
  model.has_logit_cap = config.is_above_zero("final_logit_softcapping", default_cap);
}

}  // namespace

void llama(Config& config, Architecture& model) {
  build(config, model, {.needs_kv_heads = false});
  set_attention_bias(config, model);
  const bool has_bias = config.flag("mlp_bias", false);
  each_block(model, [&](Block& block, size_t) { block.mlp.has_bias = has_bias; });
}

void mistral(Config& config, Architecture& model) {
  build(config, model);
  set_windows(config, model, kEvery, kDefaultWindow);
}

void qwen2(Config& config, Architecture& model) {
  build(config, model);
  each_block(model, [](Block& block, size_t) { block.attention.has_input_bias = true; });
  set_later_windows(config, model);
}

void qwen3(Config& config, Architecture& model) {
  build(config, model, {.head_dim = 128});
  set_attention_bias(config, model);
  set_head_norms(model);
  set_later_windows(config, model);
}

void gemma(Config& config, Architecture& model) {
  const char* activation = config.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  build(config, model,
        {.norm = {.kind = NormKind::kGemmaRms},
         .is_tied = true,
         .activation = activation,
         .default_activation = "gelu_pytorch_tanh",
         .head_dim = 256});
  set_attention_bias(config, model);
}

void gemma2(Config& config, Architecture& model) {
  gemma_with_post_norms(config, model, 30);
  each_block(model, [](Block& block, size_t) { block.attention.is_eager = true; });
  set_windows(config, model, [](size_t i) { return i % 2 == 0; }, kDefaultWindow);
}

void gemma3(Config& config, Architecture& model) {
  gemma_with_post_norms(config, model, 0);
  set_head_norms(model);
  const uint64_t pattern = config.number("sliding_window_pattern", 6);
  set_windows(config, model, [&](size_t i) { return (i + 1) % pattern != 0; }, kDefaultWindow);
}

void phi3(Config& config, Architecture& model) {
  build(config, model, {.needs_kv_heads = false});
  const bool has_dropout = config.is_above_zero("resid_pdrop", 0);
  each_block(model, [&](Block& block, size_t) {
    block.attention.is_fused = block.mlp.is_fused = true;
    block.attention.copies_output = true;
    block.has_dropout = has_dropout;
  });
  set_windows(config, model, kEvery);
}

void mixtral(Config& config, Architecture& model) {
  build(config, model);
  set_windows(config, model, kEvery);
  set_experts(config, model, read_experts(config, "num_local_experts", "intermediate_size"), 0);
}

void qwen2_moe(Config& config, Architecture& model) {
  build(config, model);
  const bool has_bias = config.flag("qkv_bias", true);
  each_block(model, [&](Block& block, size_t) { block.attention.has_input_bias = has_bias; });
  Experts experts = read_experts(config, qwen_experts(config), "moe_intermediate_size");
  experts.has_shared_gate = true;
  set_experts(config, model, experts, config.required("shared_expert_intermediate_size"));
  set_later_windows(config, model);
}

void qwen3_moe(Config& config, Architecture& model) {
  build(config, model);
  set_attention_bias(config, model);
  set_head_norms(model);
  set_experts(config, model, read_experts(config, qwen_experts(config), "moe_intermediate_size"),
              0);
  if (config.flag("use_sliding_window", false)) set_windows(config, model, kEvery, kDefaultWindow);
}

}  // namespace vram::plan::families
