#include "plan/model/families.hpp"

#include "base/file.hpp"
#include "base/testing/paths.hpp"
#include "plan/model/weights.hpp"

#include <gtest/gtest.h>

namespace vram::plan {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;

Json read_json(const std::string& name) {
  return Json::parse(read_whole(source_path("tests/data/plan/" + name), kMaxFileBytes).value());
}

Json llama() { return read_json("models/llama-7b.json"); }

std::string refusal(const Json& config) {
  const auto model = parse_model(config.dump());
  return model ? "" : model.error().message;
}

// tests/frameworks/test_model_plans.py checks that these are the numbers of Transformers' models.
TEST(Families, HaveAsManyParametersAsTheModelsOfTransformers) {
  const Json counts = read_json("parameter_counts.json");
  EXPECT_GE(counts.size(), 21u);
  for (const auto& [name, count] : counts.items()) {
    const auto model = parse_model(read_json("models/" + name + ".json").dump());
    ASSERT_TRUE(model) << name << ": " << model.error().message;
    EXPECT_EQ(parameter_count(*model), count.get<uint64_t>()) << name;
  }
}

TEST(Families, CountTheParametersThatATokenUses) {
  const auto of = [](const char* name) {
    return active_parameter_count(parse_model(read_json(name).dump()).value());
  };
  EXPECT_EQ(of("models/llama-7b.json"), 6'738'415'616u);
  // Two of eight experts in 32 layers: 46,702,792,704 without 6 × 32 × 3 × 4096 × 14336.
  EXPECT_EQ(of("models/mixtral-8x7b.json"), 12'879'925'248u);
}

TEST(Families, ReadWindows) {
  const auto windows = [](const char* name) {
    size_t count = 0;
    for (const Block& each : parse_model(read_json(name).dump()).value().blocks)
      count += each.attention.window ? 1 : 0;
    return count;
  };
  EXPECT_EQ(windows("models/mistral-7b.json"), 32u);
  EXPECT_EQ(windows("models/mixtral-8x7b.json"), 0u);  // null
  EXPECT_EQ(windows("models/gemma2-9b.json"), 21u);    // every other layer
  EXPECT_EQ(windows("models/gemma3-1b.json"), 22u);    // five of six
  EXPECT_EQ(windows("models/qwen2-7b.json"), 0u);      // switched off
}

TEST(Families, NameTheKeyThatIsMissingOrWrong) {
  Json config = llama();
  config.erase("hidden_size");
  EXPECT_EQ(refusal(config), "\"hidden_size\" is missing; expected an integer from 1 to 16777216");
  config["hidden_size"] = -5;
  EXPECT_EQ(refusal(config), "\"hidden_size\" must be an integer from 1 to 16777216, found -5");
  config["hidden_size"] = "4096";
  EXPECT_EQ(refusal(config),
            "\"hidden_size\" must be an integer from 1 to 16777216, found \"4096\"");
  config["hidden_size"] = 4097;
  EXPECT_EQ(
      refusal(config),
      "\"hidden_size\" 4097 is no multiple of \"num_attention_heads\" 32, and \"head_dim\" is "
      "missing");
  config["hidden_size"] = 4096;
  config["num_key_value_heads"] = 5;
  EXPECT_EQ(refusal(config), "32 attention heads cannot share 5 heads of keys and values");
  config["num_key_value_heads"] = 8;
  config["hidden_act"] = "mish";
  EXPECT_NE(refusal(config).find("\"hidden_act\" is \"mish\"; known: silu"), std::string::npos);
}

TEST(Families, RefuseWhatHasNoFormula) {
  Json config = llama();
  config["model_type"] = "mamba";
  EXPECT_NE(refusal(config).find("model_type \"mamba\" is not known; known: bert, falcon"),
            std::string::npos);
  EXPECT_NE(refusal(config).find("vram run --dry"), std::string::npos);
  config = llama();
  config["architectures"] = {"LlamaForSequenceClassification"};
  EXPECT_NE(refusal(config).find("of llama, LlamaForCausalLM is known"), std::string::npos);
  config = llama();
  config["quantization_config"] = {{"bits", 4}};
  EXPECT_NE(refusal(config).find("stored quantized"), std::string::npos);
  config = llama();
  config["num_hidden_layers"] = 4096;
  config["hidden_size"] = 1 << 20;
  config["intermediate_size"] = 1 << 22;
  EXPECT_NE(refusal(config).find("at most 1e+13 are supported"), std::string::npos);
}

TEST(Families, RefuseOtherDocuments) {
  const auto refusal_of = [](const char* text) { return parse_model(text).error().message; };
  EXPECT_EQ(refusal_of("{"), "expected the config.json of a model, found text that is not JSON");
  EXPECT_EQ(refusal_of("[1]"), "expected the config.json of a model, found array");
  EXPECT_NE(refusal_of("{}").find("\"model_type\" is missing"), std::string::npos);
}

}  // namespace
}  // namespace vram::plan
