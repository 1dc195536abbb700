#include "plan/chain_json.hpp"

#include "plan/testing/chains.hpp"

#include <gtest/gtest.h>

namespace vram::plan {
namespace {

std::string parse_refusal(std::string_view json) {
  const auto chain = parse_chain(json);
  return chain ? "" : chain.error().message;
}

std::string document_of(std::string_view stages) {
  return fmt::format(R"({{"schema": "vram.chain/1", "stages": [{}]}})", stages);
}

TEST(ChainJson, FillsInTheSmallestPeaksAndGradients) {
  const Chain chain = parse_chain(R"({
    "schema": "vram.chain/1", "fixed_bytes": 100, "input_bytes": 7, "input_gradient_bytes": 5,
    "stages": [
      {"output_bytes": 10, "parameter_gradient_bytes": 3, "forward_ns": 4,
       "options": [{"kept_bytes": 30, "backward_ns": 8}]},
      {"name": "head", "output_bytes": 20, "gradient_bytes": 1, "forward_ns": 4,
       "options": [{"name": "offload", "kept_bytes": 40, "offloaded_bytes": 2, "backward_ns": 8,
                    "forward_ns": 6, "offload_ns": 9, "fetch_ns": 11}]}]})")
                          .value();
  EXPECT_EQ(chain.fixed_bytes, 100u);
  ASSERT_EQ(chain.stages.size(), 2u);
  const Option& first = chain.stages[0].options[0];
  EXPECT_EQ(chain.stages[0].gradient_bytes, 10u);
  EXPECT_EQ(chain.stages[0].forward_peak_bytes, 10u);
  EXPECT_EQ(first.forward_ns, 4u);
  EXPECT_EQ(first.forward_peak_bytes, 30u);
  EXPECT_EQ(first.backward_peak_bytes, 30u + 10 + 5 + 3);
  const Option& second = chain.stages[1].options[0];
  EXPECT_EQ(second.name, "offload");
  EXPECT_EQ(second.forward_peak_bytes, 42u);
  EXPECT_EQ(second.backward_peak_bytes, 42u + 1 + 10);
  EXPECT_EQ(option_ns(second), 6u + 8 + 9 + 11);
}

TEST(ChainJson, ReadsBackWhatItWrites) {
  testing::Random random(1);
  const Chain chain = testing::random_chain(random, {.stages = 20, .max_options = 3});
  const std::string text = chain_json(chain);
  EXPECT_EQ(chain_json(parse_chain(text).value()), text);
}

TEST(ChainJson, NamesWhatIsWrong) {
  EXPECT_EQ(parse_refusal("{"), "the chain is not valid JSON at byte 2; expected vram.chain/1");
  EXPECT_EQ(parse_refusal("[]"), "chain: expected an object, found array");
  EXPECT_EQ(parse_refusal(R"({"schema": "vram.plan/1"})"),
            "chain: schema is \"vram.plan/1\"; expected \"vram.chain/1\"");
  EXPECT_EQ(parse_refusal(R"({"schema": "vram.chain/1"})"), "chain: stages must be an array");
  EXPECT_EQ(parse_refusal(document_of("7")), "stages[0]: expected an object, found number");
  EXPECT_EQ(parse_refusal(document_of(R"({"output_bytes": -1, "forward_ns": 1, "options": []})")),
            "stages[0]: output_bytes must be an integer of at least 0, found -1");
  EXPECT_EQ(parse_refusal(document_of(R"({"output_bytes": 1.5, "forward_ns": 1, "options": []})")),
            "stages[0]: output_bytes must be an integer of at least 0, found 1.5");
  EXPECT_EQ(parse_refusal(document_of(R"({"output_bytes": 1, "options": []})")),
            "stages[0]: forward_ns is missing");
  EXPECT_EQ(
      parse_refusal(document_of(
          R"({"output_bytes": 1, "forward_ns": 1, "options": [{"kept_bytes": 1, "backward_ns": 1, "peak": 2}]})")),
      "stages[0].options[0]: unknown key \"peak\"");
  EXPECT_EQ(parse_refusal(document_of(R"({"output_bytes": 1, "forward_ns": 1, "options": []})")),
            "stage 0 has 0 options; expected 1 to 32");
}

TEST(ChainJson, RefusesNumbersThatAreTooLarge) {
  EXPECT_NE(
      parse_refusal(document_of(
          R"({"output_bytes": 18446744073709551615, "forward_ns": 1, "options": [{"kept_bytes": 18446744073709551615, "offloaded_bytes": 9, "backward_ns": 1}]})")),
      "");
  EXPECT_NE(parse_refusal(R"({"schema": "vram.chain/1", "fixed_bytes": 1e30, "stages": []})"), "");
}

}  // namespace
}  // namespace vram::plan
