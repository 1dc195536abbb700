#include "plan/model/families.hpp"

#include "base/text.hpp"
#include "plan/model/weights.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace vram::plan {
namespace {

std::string found(const Json& value) { return printable(limit_bytes(value.dump(), 40)); }

// A model of more would overflow sums of bytes.
constexpr double kMaxParameters = 1e13;

struct Family {
  std::string_view model_type;
  std::string_view model_class;
  std::string_view layer_class;
  void (*build)(Config&, Architecture&);
};

constexpr std::array kFamilies{
    Family{"bert", "BertForMaskedLM", "BertLayer", families::bert},
    Family{"falcon", "FalconForCausalLM", "FalconDecoderLayer", families::falcon},
    Family{"gemma", "GemmaForCausalLM", "GemmaDecoderLayer", families::gemma},
    Family{"gemma2", "Gemma2ForCausalLM", "Gemma2DecoderLayer", families::gemma2},
    Family{"gemma3_text", "Gemma3ForCausalLM", "Gemma3DecoderLayer", families::gemma3},
    Family{"gpt2", "GPT2LMHeadModel", "GPT2Block", families::gpt2},
    Family{"gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXLayer", families::gpt_neox},
    Family{"llama", "LlamaForCausalLM", "LlamaDecoderLayer", families::llama},
    Family{"mistral", "MistralForCausalLM", "MistralDecoderLayer", families::mistral},
    Family{"mixtral", "MixtralForCausalLM", "MixtralDecoderLayer", families::mixtral},
    Family{"opt", "OPTForCausalLM", "OPTDecoderLayer", families::opt},
    Family{"phi", "PhiForCausalLM", "PhiDecoderLayer", families::phi},
    Family{"phi3", "Phi3ForCausalLM", "Phi3DecoderLayer", families::phi3},
    Family{"qwen2", "Qwen2ForCausalLM", "Qwen2DecoderLayer", families::qwen2},
    Family{"qwen2_moe", "Qwen2MoeForCausalLM", "Qwen2MoeDecoderLayer", families::qwen2_moe},
    Family{"qwen3", "Qwen3ForCausalLM", "Qwen3DecoderLayer", families::qwen3},
    Family{"qwen3_moe", "Qwen3MoeForCausalLM", "Qwen3MoeDecoderLayer", families::qwen3_moe},
    Family{"starcoder2", "Starcoder2ForCausalLM", "Starcoder2DecoderLayer", families::starcoder2},
};

constexpr std::string_view kWayOut = tr_later(
    "a dry run of the training script predicts any model: vram run --dry -- python train.py");

Result<const Family*> family_of(Config& config) {
  const std::string type = config.text("model_type", "");
  VRAM_TRY(config.finish());
  const auto* const found = std::ranges::find(kFamilies, type, &Family::model_type);
  if (found != kFamilies.end()) return &*found;
  if (type.empty())
    return fail(Code::kBadInput,
                "\"model_type\" is missing; expected the config.json of a model, with one of {}",
                known_families());
  return fail(Code::kUnsupported, "model_type \"{}\" is not known; known: {}; {}", printable(type),
              known_families(), tr(kWayOut));
}

// Formulas exist for one class of a family, and for weights that are not quantized.
void check_variant(Config& config, const Family& family) {
  if (config.has("quantization_config"))
    config.refuse(
        Code::kUnsupported,
        tr_later("the weights are stored quantized (\"quantization_config\"), for which there is "
                 "no formula; {}"),
        tr(kWayOut));
  const Json* classes = config.array("architectures");
  if (classes == nullptr || classes->empty() || classes->front() == family.model_class) return;
  config.refuse(Code::kUnsupported, tr_later("\"architectures\" is {}; of {}, {} is known; {}"),
                printable(limit_bytes(classes->dump(), 80)), family.model_type, family.model_class,
                tr(kWayOut));
}

double rough_count(std::span<const Weight> weights) {
  double count = 0;
  for (const Weight& each : weights)
    count += static_cast<double>(each.outputs) * static_cast<double>(each.inputs) *
             static_cast<double>(each.copies);
  return count;
}

Result<> check_size(const Architecture& model) {
  double count =
      rough_count(model.embedding) + rough_count(model.final_norm) + rough_count(model.head);
  for (const Block& each : model.blocks) count += rough_count(weights_of(each));
  if (count <= kMaxParameters) return {};
  return fail(Code::kTooLarge, "the model has {:.3g} parameters; at most {:.0g} are supported",
              count, kMaxParameters);
}

}  // namespace

const Json* Config::find(const char* key) const {
  const auto value = json_.find(key);
  return value == json_.end() || value->is_null() ? nullptr : &*value;
}

uint64_t Config::required(const char* key, uint64_t max) {
  if (!has(key)) {
    refuse(Code::kBadInput, tr_later("\"{}\" is missing; expected an integer from 1 to {}"), key,
           max);
    return 1;
  }
  return number(key, 1, max);
}

uint64_t Config::number(const char* key, uint64_t fallback, uint64_t max) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_number_unsigned()) {
    const auto number = value->get<uint64_t>();
    if (number >= 1 && number <= max) return number;
  }
  refuse(Code::kBadInput, tr_later("\"{}\" must be an integer from 1 to {}, found {}"), key, max,
         found(*value));
  return fallback;
}

std::optional<uint64_t> Config::optional(const char* key, std::optional<uint64_t> absent) {
  if (!json_.contains(key)) return absent;
  const Json* value = find(key);
  if (value == nullptr || *value == 0) return std::nullopt;
  return number(key, 1, kMaxPositions);
}

bool Config::flag(const char* key, bool fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  refuse(Code::kBadInput, tr_later("\"{}\" must be true or false, found {}"), key, found(*value));
  return fallback;
}

bool Config::is_above_zero(const char* key, double fallback) {
  if (!json_.contains(key)) return fallback > 0;
  const Json* value = find(key);
  if (value == nullptr) return false;
  if (value->is_number()) return value->get<double>() > 0;
  refuse(Code::kBadInput, tr_later("\"{}\" must be a number, found {}"), key, found(*value));
  return false;
}

std::string Config::text(const char* key, const char* fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  refuse(Code::kBadInput, tr_later("\"{}\" must be a text, found {}"), key, found(*value));
  return fallback;
}

const Json* Config::array(const char* key) const {
  const Json* value = find(key);
  return value != nullptr && value->is_array() ? value : nullptr;
}

Result<> Config::finish() const {
  if (error_) return tl::unexpected(*error_);
  return {};
}

std::string known_families() {
  std::string names;
  for (const Family& each : kFamilies)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", each.model_type);
  return names;
}

Result<Architecture> parse_model(std::string_view json) {
  const Json document = Json::parse(json, nullptr, false);
  if (!document.is_object())
    return fail(Code::kBadInput, "expected the config.json of a model, found {}",
                document.is_discarded() ? "text that is not JSON" : document.type_name());
  Config config(document);
  VRAM_TRY_ASSIGN(const Family* const family, family_of(config));
  check_variant(config, *family);
  Architecture model;
  model.family = family->model_type;
  model.model_class = family->model_class;
  model.layer_class = family->layer_class;
  family->build(config, model);
  VRAM_TRY(config.finish());
  VRAM_TRY(check_size(model));
  return model;
}

namespace families {

void read_sizes(Config& config, Architecture& model, const Norm& norm, const Keys& keys) {
  model.hidden = config.required(keys.hidden);
  model.vocabulary = config.required("vocab_size");
  model.positions = keys.default_positions
                        ? config.number(keys.positions, *keys.default_positions, kMaxPositions)
                        : config.required(keys.positions, kMaxPositions);
  Block block;
  block.hidden = model.hidden;
  block.norm = norm;
  Attention& attention = block.attention;
  attention.heads = config.required(keys.heads);
  attention.kv_heads = keys.needs_kv_heads ? config.required("num_key_value_heads")
                                           : config.number("num_key_value_heads", attention.heads);
  if (attention.heads % attention.kv_heads != 0)
    config.refuse(Code::kBadInput,
                  tr_later("{} attention heads cannot share {} heads of keys and values"),
                  attention.heads, attention.kv_heads);
  if (!config.has("head_dim") && keys.head_dim == 0 && model.hidden % attention.heads != 0)
    config.refuse(Code::kBadInput,
                  tr_later("\"{}\" {} is no multiple of \"{}\" {}, and \"head_dim\" is missing"),
                  keys.hidden, model.hidden, keys.heads, attention.heads);
  const uint64_t shared = std::max<uint64_t>(1, model.hidden / attention.heads);
  attention.head_dim = config.number("head_dim", keys.head_dim == 0 ? shared : keys.head_dim);
  model.blocks.assign(config.required(keys.layers, kMaxLayers), block);
}

Activation read_activation(Config& config, const char* key, const char* fallback) {
  static const std::vector<std::string> kOneKernel = {"silu", "swish", "gelu", "gelu_pytorch_tanh",
                                                      "gelu_python_tanh"};
  const std::string name = config.text(key, fallback);
  if (std::ranges::find(kOneKernel, name) != kOneKernel.end()) return Activation::kKeepsInput;
  if (name == "relu") return Activation::kKeepsOutput;
  if (name == "gelu_new") return Activation::kComposed;
  config.refuse(
      Code::kUnsupported,
      tr_later("\"{}\" is \"{}\"; known: silu, gelu, gelu_pytorch_tanh, gelu_new, relu; {}"), key,
      printable(name), tr(kWayOut));
  return Activation::kKeepsInput;
}

void add_embedding(Architecture& model, const char* name, uint64_t rows, uint64_t width) {
  model.embedding.push_back({.name = name,
                             .kind = WeightKind::kEmbedding,
                             .outputs = rows,
                             .inputs = width,
                             .is_split = model.embedding.empty()});
}

void add_ends(Config& config, Architecture& model, bool is_tied_by_default, bool has_head_bias) {
  add_embedding(model, "tokens", model.vocabulary, model.hidden);
  model.final_norm = weights_of(model.blocks.front().norm, model.hidden, "norm");
  model.is_head_tied = config.flag("tie_word_embeddings", is_tied_by_default);
  if (!model.is_head_tied)
    model.head.push_back(
        {.name = "head", .outputs = model.vocabulary, .inputs = model.hidden, .is_split = true});
  if (has_head_bias)
    model.head.push_back({.name = "head.bias",
                          .kind = WeightKind::kVector,
                          .outputs = model.vocabulary,
                          .is_split = true});
}

}  // namespace families

}  // namespace vram::plan
