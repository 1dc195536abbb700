#include "plan/block.hpp"

#include "plan/testing/chains.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vram::plan {
namespace {

using testing::pick;
using testing::Random;

// matmul (100 B, slow) ─▶ gelu (100 B, fast) ─▶ dropout (50 B) ─▶ output (20 B); backward reads all
// but the output.
Block mlp() {
  Block block;
  block.ops = {{"matmul", 100, 40, {kBlockInput}, true},
               {"gelu", 100, 2, {0}, true},
               {"dropout", 50, 3, {1}, true},
               {"output", 20, 30, {2}}};
  block.backward_ns = 150;
  block.gradient_bytes = 20;
  block.input_gradient_bytes = 20;
  return block;
}

TEST(Block, KeepsWhatIsSlowToComputeAgain) {
  const auto options = block_options(mlp()).value();
  ASSERT_GE(options.size(), 3u);
  EXPECT_EQ(options[0].name, "keep all");
  EXPECT_EQ(options[0].kept_bytes, 270u);
  EXPECT_EQ(options[0].backward_ns, 150u);
  EXPECT_EQ(options[0].backward_peak_bytes, 270u + 40);
  // Without gelu: computed again from matmul.
  EXPECT_EQ(options[1].kept_bytes, 170u);
  EXPECT_EQ(options[1].backward_ns, 152u);
  // Without anything: every operation but the last one runs again, at once.
  EXPECT_EQ(options.back().kept_bytes, 20u);
  EXPECT_EQ(options.back().backward_ns, 150u + 45);
  EXPECT_EQ(options.back().forward_peak_bytes, 200u) << "matmul and gelu";
  EXPECT_EQ(options.back().backward_peak_bytes, 270u + 40);
  EXPECT_EQ(options.back().name, "recompute 3 of 4 operations");
}

TEST(Block, NeverRepeatsWhatMustNotRunTwice) {
  Block block = mlp();
  block.ops[2].is_repeatable = false;
  const auto options = block_options(block).value();
  for (const Option& each : options) EXPECT_GE(each.kept_bytes, 20u + 50);
  // gelu is not saved, but needed to compute nothing; matmul, read by dropout only, is not either.
  block.ops[0].is_saved = block.ops[1].is_saved = false;
  EXPECT_EQ(block_options(block).value().size(), 1u);
}

TEST(Block, CountsTheOperationsThatAnInputNeeds) {
  Block block = mlp();
  block.ops[0].is_saved = false;  // gelu can only be computed again from it
  const auto options = block_options(block).value();
  EXPECT_EQ(options.back().backward_ns, 150u + 45);
  const auto found = std::ranges::find(options, 70u, &Option::kept_bytes);
  ASSERT_NE(found, options.end());
  EXPECT_EQ(found->backward_ns, 150u + 42);
}

Block random_block(Random& random, size_t ops) {
  Block block;
  for (size_t i = 0; i < ops; ++i) {
    BlockOp op{
        "op", pick(random, 0, 100), pick(random, 1, 50), {kBlockInput}, pick(random, 0, 2) > 0};
    if (i > 0) op.inputs.push_back(static_cast<uint32_t>(pick(random, 0, i - 1)));
    op.is_repeatable = pick(random, 0, 9) > 0;
    block.ops.push_back(op);
  }
  block.backward_ns = 100;
  return block;
}

// Options of any block are valid in a chain, none is dominated, and at most as many as wanted.
TEST(Block, OptionsAreValidAndNoneIsDominated) {
  Random random(1);
  for (size_t ops = 1; ops < 60; ++ops) {
    const Block block = random_block(random, ops);
    const auto options = block_options(block).value();
    EXPECT_LE(options.size(), kDefaultOptions);
    for (size_t i = 1; i < options.size(); ++i) {
      EXPECT_LT(options[i].kept_bytes, options[i - 1].kept_bytes);
      EXPECT_GT(option_ns(options[i]), option_ns(options[i - 1]));
    }
    Chain chain;
    Stage& stage = chain.stages.emplace_back();
    stage.output_bytes = block.ops.back().output_bytes;
    stage.forward_peak_bytes = stage.output_bytes;
    stage.options = options;
    const auto valid = check(chain);
    EXPECT_TRUE(valid) << valid.error().message;
  }
}

TEST(Block, RefusesInputsThatComeLaterAndTooManyOperations) {
  Block block = mlp();
  block.ops[1].inputs = {1};
  EXPECT_EQ(block_options(block).error().message,
            "operation 1 (gelu) reads operation 1; expected an earlier one");
  EXPECT_FALSE(block_options({}));
  block.ops.assign(kMaxBlockOps + 1, {});
  EXPECT_FALSE(block_options(block));
  block = mlp();
  block.ops[0].output_bytes = kMaxStageBytes + 1;
  EXPECT_FALSE(block_options(block));
}

}  // namespace
}  // namespace vram::plan
