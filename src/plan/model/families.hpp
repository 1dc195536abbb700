// From a Hugging Face config.json to an architecture: one function for each family (model_type).
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"
#include "plan/model/architecture.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace vram::plan {

// Config: the values of a Hugging Face config.json. It remembers the first error, so that a reader
// can read all values first. Keys that it is not asked for are ignored: they do not concern memory.
class Config {
 public:
  explicit Config(const Json& json) : json_(json) {}

  // From 1 to `max`; a null or absent value is an error.
  uint64_t required(const char* key, uint64_t max = kMaxWidth);
  // The same with a value for null or absent.
  uint64_t number(const char* key, uint64_t fallback, uint64_t max = kMaxWidth);
  // None if null or 0; `absent` if it is not there.
  std::optional<uint64_t> optional(const char* key, std::optional<uint64_t> absent = {});
  bool flag(const char* key, bool fallback);
  // Whether a number, such as the probability of dropout, is above 0; null is not.
  bool is_above_zero(const char* key, double fallback);
  std::string text(const char* key, const char* fallback);
  // An array, or null if it is absent or none.
  [[nodiscard]] const Json* array(const char* key) const;
  // Whether it is there and not null.
  [[nodiscard]] bool has(const char* key) const { return find(key) != nullptr; }

  template <typename... Args>
  void refuse(Code code, fmt::format_string<Args...> format, Args&&... args) {
    if (!error_) error_ = Error{code, trf(format, std::forward<Args>(args)...)};
  }
  // The first error.
  [[nodiscard]] Result<> finish() const;

 private:
  // None if it is null.
  [[nodiscard]] const Json* find(const char* key) const;

  const Json& json_;
  std::optional<Error> error_;
};

// `json`: the text of a config.json. kUnsupported: a family, a class or a setting for which there
// is no formula; the message lists the families, and names the way without one.
[[nodiscard]] Result<Architecture> parse_model(std::string_view json);

// "bert, gemma, …"
[[nodiscard]] std::string known_families();

// The families. Each fills `model` from `config`, which keeps the first error.
namespace families {

// Families that are built like Llama: RMS norms, a gated MLP.
void llama(Config& config, Architecture& model);
void mistral(Config& config, Architecture& model);
void qwen2(Config& config, Architecture& model);
void qwen3(Config& config, Architecture& model);
void gemma(Config& config, Architecture& model);
void gemma2(Config& config, Architecture& model);
void gemma3(Config& config, Architecture& model);
void phi3(Config& config, Architecture& model);
void mixtral(Config& config, Architecture& model);
void qwen2_moe(Config& config, Architecture& model);
void qwen3_moe(Config& config, Architecture& model);

// Families with layer norms and an MLP without a gate.
void gpt2(Config& config, Architecture& model);
void gpt_neox(Config& config, Architecture& model);
void opt(Config& config, Architecture& model);
void phi(Config& config, Architecture& model);
void falcon(Config& config, Architecture& model);
void starcoder2(Config& config, Architecture& model);
void bert(Config& config, Architecture& model);

// What they share.

// Names of the keys that differ between families, and their defaults.
struct Keys {
  const char* hidden = "hidden_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* positions = "max_position_embeddings";
  // Of Transformers, if the config does not have them: each query has a key; hidden / heads.
  bool needs_kv_heads = false;
  uint64_t head_dim = 0;
  std::optional<uint64_t> default_positions{};
};
// Reads the sizes that all families have, and makes equal blocks with `norm`.
void read_sizes(Config& config, Architecture& model, const Norm& norm, const Keys& keys = {});
// The function of the MLP.
[[nodiscard]] Activation read_activation(Config& config, const char* key, const char* fallback);
// Adds the embedding of tokens, the final norm and the head; `has_head_bias`: the head's.
void add_ends(Config& config, Architecture& model, bool is_tied_by_default,
              bool has_head_bias = false);
void add_embedding(Architecture& model, const char* name, uint64_t rows, uint64_t width);
// Applies `change` to each block and its index.
template <typename Change>
void each_block(Architecture& model, Change change) {
  for (size_t i = 0; i < model.blocks.size(); ++i) change(model.blocks[i], i);
}

}  // namespace families

}  // namespace vram::plan
