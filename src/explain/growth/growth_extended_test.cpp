#include "explain/growth/growth.hpp"
#include "explain/steps/steps.hpp"
#include "explain/testing/growth.hpp"
#include "explain/testing/trace_builder.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

namespace vram::explain::extended {
namespace {

using testing::growth_of;
using testing::Made;

struct Program {
  uint32_t steps = 30;
  std::function<uint64_t(uint32_t)> length = [](uint32_t i) { return i + 1; };
  bool has_stacks = true;
  bool is_used_after = false;  // the old block is freed at the end of the step
};

// history = torch.cat([history, x]): there is one block at each end, which no step keeps.
Made record(const Program& p) {
  testing::TraceBuilder b;
  std::mt19937 random(5);
  const trace::StackId line =
      p.has_stacks ? b.stack({{"/home/me/train.py", 42, "extend"}}) : trace::StackId{0};
  std::vector<testing::TraceBuilder::Block> history;
  for (uint32_t i = 0; i < p.steps; ++i) {
    b.begin("step");
    for (auto j = random() % 3; j > 0; --j) b.temporary(1 << 16);
    b.temporary(4 << 20);
    const auto longer = b.alloc(p.length(i) * 100'000, line);
    if (!p.is_used_after) b.free_all(&history);
    for (uint32_t j = 0; j < 40; ++j) b.temporary((1 << 20) + j * 512);
    b.free_all(&history);
    history.push_back(longer);
    b.end("step");
  }
  b.free_all(&history);
  return b.build();
}

TEST(Extended, ATensorThatEachStepReplacesByALargerOneIsUndecided) {
  for (const bool has_stacks : {true, false}) {
    const std::vector<Growth> growth = growth_of(record({.has_stacks = has_stacks}));
    ASSERT_EQ(growth.size(), 1U) << has_stacks;
    EXPECT_EQ(growth[0].kind, GrowthKind::kUndecided);
    EXPECT_EQ(growth[0].line, has_stacks ? "train.py:42 extend" : "");
    EXPECT_NEAR(growth[0].bytes_per_step, 100'000, 1);
    EXPECT_EQ(growth[0].live_bytes, 3'000'000U);
    EXPECT_EQ(growth[0].birth_steps, 0U);
  }
}

TEST(Extended, PartsOfAnyLengthCount) {
  uint64_t length = 0;
  std::mt19937 random(3);
  const auto longer = [&](uint32_t) { return length += 1 + random() % 5; };
  EXPECT_EQ(growth_of(record({.length = longer})).size(), 1U);
}

// As the caches of generated sequences do.
TEST(Extended, OneThatBeginsAgainDoesNotGrow) {
  for (const bool has_stacks : {true, false}) {
    const auto begins_again = [](uint32_t i) { return 1 + i % 12; };
    EXPECT_TRUE(growth_of(record({.length = begins_again, .has_stacks = has_stacks})).empty());
  }
}

TEST(Extended, BatchesOfAnyLengthDoNotGrow) {
  for (const bool has_stacks : {true, false}) {
    for (const uint32_t steps : {10U, 20U, 30U, 60U}) {
      std::mt19937 random(steps);
      const auto any = [&](uint32_t) { return 1 + random() % 40; };
      EXPECT_TRUE(
          growth_of(record({.steps = steps, .length = any, .has_stacks = has_stacks})).empty())
          << steps;
    }
  }
}

// Batches that are sorted by their length, each made while the last one is used.
TEST(Extended, APrefetchedBatchIsNotReplaced) {
  for (const bool has_stacks : {true, false})
    EXPECT_TRUE(growth_of(record({.has_stacks = has_stacks, .is_used_after = true})).empty());
}

}  // namespace
}  // namespace vram::explain::extended
