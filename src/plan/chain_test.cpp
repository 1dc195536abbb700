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

}  // namespace
}  // namespace vram::plan
