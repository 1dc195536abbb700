// Families with layer norms and an MLP without a gate.
#include "plan/model/families.hpp"
#include "plan/model/weights.hpp"

#include <utility>

namespace vram::plan::families {
namespace {

constexpr Norm kLayerNorm = {.kind = NormKind::kLayer, .has_weight = true, .has_bias = true};

// OPT adds this to each position.
constexpr uint64_t kOptPositionOffset = 2;

void set_biases(Architecture& model, bool attention_input, bool attention_output, bool mlp) {
  each_block(model, [&](Block& block, size_t) {
    block.attention.has_input_bias = attention_input;
    block.attention.has_output_bias = attention_output;
    block.mlp.has_bias = mlp;
  });
}

void set_mlp(Architecture& model, uint64_t inner, Activation activation) {
  each_block(model, [&](Block& block, size_t) {
    block.mlp = {.inner = inner, .is_gated = false, .activation = activation};
  });
}

void set_dropout(Architecture& model, bool has_dropout) {
  each_block(model, [&](Block& block, size_t) { block.has_dropout = has_dropout; });
}

void set_rotation(Architecture& model, bool has_rotation) {
  each_block(model, [&](Block& block, size_t) { block.attention.has_rotation = has_rotation; });
}

void refuse_if(Config& config, const char* key) {
  if (config.flag(key, false))
    config.refuse(Code::kUnsupported, tr_later("\"{}\" is true, for which there is no formula"),
                  key);
}

}  // namespace

void gpt2(Config& config, Architecture& model) {
  refuse_if(config, "add_cross_attention");
  read_sizes(config, model, kLayerNorm, {"n_embd", "n_layer", "n_head", "n_positions"});
  set_mlp(model, config.number("n_inner", 4 * model.hidden),
          read_activation(config, "activation_function", "gelu_new"));
  set_biases(model, true, true, true);
  set_rotation(model, false);
  each_block(model, [](Block& block, size_t) {
    block.attention.is_fused = true;
    block.held_count = 5;  // attention's output too
  });
  set_dropout(model, config.is_above_zero("resid_pdrop", 0.1));
  add_ends(config, model, true);
  add_embedding(model, "positions", model.positions, model.hidden);
  model.has_learned_positions = true;
  model.has_embedding_dropout = config.is_above_zero("embd_pdrop", 0.1);
  model.names = {{"transformer.wte", "transformer.wpe", "transformer.drop"},
                 "transformer.h",
                 {"transformer.ln_f"},
                 "lm_head"};
}

void gpt_neox(Config& config, Architecture& model) {
  read_sizes(config, model, kLayerNorm);
  set_mlp(model, config.required("intermediate_size"),
          read_activation(config, "hidden_act", "gelu"));
  const bool has_bias = config.flag("attention_bias", true);
  set_biases(model, has_bias, has_bias, true);
  const bool is_parallel = config.flag("use_parallel_residual", true);
  each_block(model, [&](Block& block, size_t) {
    block.attention.is_fused = block.attention.copies_output = true;
    block.is_parallel = is_parallel;
  });
  set_dropout(model, config.is_above_zero("hidden_dropout", 0));
  add_ends(config, model, false);
  model.has_embedding_dropout = config.is_above_zero("hidden_dropout", 0);
  model.names = {{"gpt_neox.embed_in", "gpt_neox.emb_dropout"},
                 "gpt_neox.layers",
                 {"gpt_neox.final_layer_norm", "gpt_neox.rotary_emb"},
                 "lm_head"};
}

void opt(Config& config, Architecture& model) {
  const bool has_affine_norm = config.flag("layer_norm_elementwise_affine", true);
  read_sizes(
      config, model,
      {.kind = NormKind::kLayer, .has_weight = has_affine_norm, .has_bias = has_affine_norm});
  set_mlp(model, config.required("ffn_dim"),
          read_activation(config, "activation_function", "relu"));
  const bool has_bias = config.flag("enable_bias", true);
  set_biases(model, has_bias, has_bias, has_bias);
  set_rotation(model, false);
  set_dropout(model, config.is_above_zero("dropout", 0.1));
  add_ends(config, model, true);
  const uint64_t width = config.number("word_embed_proj_dim", model.hidden);
  const bool is_pre_norm = config.flag("do_layer_norm_before", true);
  if (width != model.hidden || !is_pre_norm)
    config.refuse(Code::kUnsupported,
                  tr_later("\"do_layer_norm_before\" is false, or \"word_embed_proj_dim\" is not "
                           "\"hidden_size\" (as of opt-350m), for which there is no formula"));
  if (config.flag("_remove_final_layer_norm", false)) model.final_norm.clear();
  add_embedding(model, "positions", model.positions + kOptPositionOffset, model.hidden);
  model.has_learned_positions = true;
  model.names = {{"model.decoder.embed_tokens", "model.decoder.embed_positions"},
                 "model.decoder.layers",
                 {"model.decoder.final_layer_norm"},
                 "lm_head"};
}

void phi(Config& config, Architecture& model) {
  refuse_if(config, "qk_layernorm");
  read_sizes(config, model, kLayerNorm);
  set_mlp(model, config.required("intermediate_size"),
          read_activation(config, "hidden_act", "gelu_new"));
  set_biases(model, true, true, true);
  each_block(model, [](Block& block, size_t) {
    block.attention.copies_output = true;
    block.norm_count = 1;
    block.is_parallel = true;
  });
  set_dropout(model, config.is_above_zero("resid_pdrop", 0));
  add_ends(config, model, false, true);
  model.has_embedding_dropout = config.is_above_zero("embd_pdrop", 0);
  model.names = {{"model.embed_tokens", "model.embed_dropout"},
                 "model.layers",
                 {"model.final_layernorm", "model.rotary_emb"},
                 "lm_head"};
}

void falcon(Config& config, Architecture& model) {
  refuse_if(config, "alibi");
  read_sizes(config, model, kLayerNorm, {.default_positions = 2048});
  set_mlp(model, config.number("ffn_hidden_size", 4 * model.hidden),
          read_activation(config, "activation", "gelu"));
  const bool has_bias = config.flag("bias", false);
  set_biases(model, has_bias, has_bias, has_bias);
  const bool is_new = config.flag("new_decoder_architecture", false);
  const bool is_parallel = is_new || config.flag("parallel_attn", true);
  const uint64_t norms = config.number("num_ln_in_parallel_attn", is_new ? 2 : 1, 2);
  const bool has_one_key = config.flag("multi_query", true);
  each_block(model, [&](Block& block, size_t) {
    Attention& attention = block.attention;
    attention.is_fused = true;
    attention.copies_values = is_new || has_one_key;
    attention.repeats_keys = is_new;
    attention.has_mask = true;
    attention.broadcasts_keys = !is_new && has_one_key;
    attention.kv_heads = is_new        ? config.number("num_kv_heads", attention.heads)
                         : has_one_key ? 1
                                       : attention.heads;
    block.is_parallel = is_parallel;
    block.norm_count = is_parallel ? norms : 2;
    if (is_parallel) block.held_count = 3 + norms;
  });
  set_dropout(model, config.is_above_zero("hidden_dropout", 0));
  add_ends(config, model, true);
  model.names = {{"transformer.word_embeddings"},
                 "transformer.h",
                 {"transformer.ln_f", "transformer.rotary_emb"},
                 "lm_head"};
}

void starcoder2(Config& config, Architecture& model) {
  read_sizes(config, model, kLayerNorm, {.needs_kv_heads = true});
  set_mlp(model, config.required("intermediate_size"),
          read_activation(config, "hidden_act", "gelu_pytorch_tanh"));
  const bool has_bias = config.flag("use_bias", true);
  set_biases(model, has_bias, has_bias, has_bias);
  set_dropout(model, config.is_above_zero("residual_dropout", 0));
  const auto window = config.optional("sliding_window");
  each_block(model, [&](Block& block, size_t) { block.attention.window = window; });
  add_ends(config, model, true);
  model.has_embedding_dropout = config.is_above_zero("embedding_dropout", 0);
  model.names = {
      {"model.embed_tokens"}, "model.layers", {"model.norm", "model.rotary_emb"}, "lm_head"};
}

void bert(Config& config, Architecture& model) {
  refuse_if(config, "is_decoder");
  read_sizes(config, model, kLayerNorm);
  set_mlp(model, config.required("intermediate_size"),
          read_activation(config, "hidden_act", "gelu"));
  set_biases(model, true, true, true);
  set_rotation(model, false);
  set_dropout(model, config.is_above_zero("hidden_dropout_prob", 0.1));
  add_ends(config, model, true, true);
  add_embedding(model, "positions", model.positions, model.hidden);
  add_embedding(model, "token_types", config.number("type_vocab_size", 2), model.hidden);
  for (Weight& each : weights_of(kLayerNorm, model.hidden, "embedding_norm"))
    model.embedding.push_back(std::move(each));
  model.final_norm.clear();
  for (Weight& each : weights_of(kLayerNorm, model.hidden, "head_norm"))
    model.head.push_back(std::move(each));
  add_linear(model.head, "head_transform",
             {.outputs = model.hidden, .inputs = model.hidden, .has_bias = true});
  model.is_causal = false;
  model.has_learned_positions = true;
  model.has_embedding_dropout = config.is_above_zero("hidden_dropout_prob", 0.1);
  model.names = {{"bert.embeddings"}, "bert.encoder.layer", {}, "cls"};
}

}  // namespace vram::plan::families
