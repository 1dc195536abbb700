#include "plan/chain.hpp"

#include "plan/testing/chains.hpp"

#include <gtest/gtest.h>

namespace vram::plan {
namespace {

std::string check_refusal(const Chain& chain) {
  const auto checked = check(chain);
  return checked ? "" : checked.error().message;
}

TEST(Chain, AcceptsRandomChains) {
  testing::Random random(1);
  for (uint32_t i = 1; i < 50; ++i)
    EXPECT_EQ(check_refusal(testing::random_chain(random, {.stages = i, .max_options = 3})), "");
}

TEST(Chain, RefusesPeaksThatLeaveSomethingOut) {
  Chain chain = testing::equal_chain(2, 10, 30);
  chain.stages[1].name = "layers.1";
  Option& option = chain.stages[1].options[0];
  option.forward_peak_bytes = 29;
  EXPECT_EQ(check_refusal(chain),
            "stage 1 (layers.1), option 'option 0': forward_peak_bytes is 29, less than kept_bytes "
            "plus offloaded_bytes (30); a peak includes everything that the stage has then");
  option.forward_peak_bytes = 30;
  option.kept_bytes = 9;
  EXPECT_EQ(
      check_refusal(chain),
      "stage 1 (layers.1), option 'option 0': kept_bytes is 9, less than output_bytes (10); a "
      "peak includes everything that the stage has then");
  option.kept_bytes = 30;
  chain.stages[0].gradient_bytes = 20;
  option.backward_peak_bytes = 19;
  EXPECT_NE(check_refusal(chain), "");
  option.backward_peak_bytes = 20;
  EXPECT_EQ(check_refusal(chain), "");
  chain.stages[1].forward_peak_bytes = 9;
  EXPECT_NE(check_refusal(chain), "");
}

TEST(Chain, RefusesWhatItCannotAddUp) {
  EXPECT_EQ(check_refusal({}),
            "the chain has 0 stages; expected 1 to 2048: merge neighbouring stages");
  EXPECT_NE(check_refusal(testing::equal_chain(kMaxStages + 1, 1, 1)), "");
  Chain chain = testing::equal_chain(1, 1, 1);
  chain.stages[0].options[0].forward_ns = kMaxDurationNs + 1;
  EXPECT_EQ(check_refusal(chain),
            "stage 0, option 'option 0': forward_ns is 2199023255553; the limit is 2199023255552");
  chain = testing::equal_chain(1, 1, kMaxStageBytes + 1);
  EXPECT_NE(check_refusal(chain), "");
  chain = testing::equal_chain(1, 1, 1);
  chain.fixed_bytes = kMaxStageBytes + 1;
  EXPECT_NE(check_refusal(chain), "");
  chain = testing::equal_chain(1, 1, 1);
  chain.stages[0].options.clear();
  EXPECT_EQ(check_refusal(chain), "stage 0 has 0 options; expected 1 to 32");
}

TEST(Chain, TheFastestOptionKeepsLeastOfEquallyFastOnes) {
  Stage stage;
  testing::add_option(stage, 50, 3, 9);
  testing::add_option(stage, 40, 3, 8);
  testing::add_option(stage, 30, 3, 8);
  EXPECT_EQ(fastest_option(stage), 2u);
  stage.options[2].fetch_ns = 1;
  EXPECT_EQ(fastest_option(stage), 1u);
}

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
