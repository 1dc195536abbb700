#include "plan/solve/solvers.hpp"

#include "plan/testing/chains.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace vram::plan {
namespace {

using testing::kUnlimited;
using testing::Random;

// The definition of Revolve's optimum (Griewank and Walther 2000): the left part gets all slots
// back, after the right one.
uint64_t fewest_runs(uint64_t length, uint64_t slots,
                     std::map<std::pair<uint64_t, uint64_t>, uint64_t>& known) {
  if (length == 1) return 0;
  if (slots == 1) return length * (length - 1) / 2;
  const auto [found, is_new] = known.try_emplace({length, slots}, kUnlimited);
  if (!is_new) return found->second;
  uint64_t fewest = kUnlimited;
  for (uint64_t j = 1; j < length; ++j)
    fewest = std::min(fewest,
                      j + fewest_runs(length - j, slots - 1, known) + fewest_runs(j, slots, known));
  return known[{length, slots}] = fewest;
}

TEST(Revolve, RunsAsOftenAsTheDefinitionSays) {
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> known;
  for (uint64_t length = 1; length <= 40; ++length) {
    for (uint64_t slots = 1; slots <= 12; ++slots)
      EXPECT_EQ(revolve_runs(length, slots), fewest_runs(length, slots, known));
  }
}

TEST(Revolve, SchedulesEqualStagesInExactlyTheseRuns) {
  for (const uint32_t stages : {1u, 2u, 3u, 10u, 57u, 300u}) {
    const Chain chain = testing::equal_chain(stages, 1, 1000);
    for (const uint64_t slots : {1u, 2u, 5u, 20u}) {
      const Schedule schedule = revolve(chain, 1000 + slots).value();
      EXPECT_LE(schedule.cost.peak_bytes, 1000 + slots);
      EXPECT_EQ(schedule.cost.time_ns, 3 * stages + revolve_runs(stages, slots));
    }
  }
  EXPECT_FALSE(revolve(testing::equal_chain(5, 1, 1000), 1000));
}

TEST(Revolve, FitsChainsOfUnequalStages) {
  Random random(1);
  for (int i = 0; i < 30; ++i) {
    const Chain chain = testing::random_chain(random, {.stages = 20, .max_options = 2});
    const uint64_t least = revolve(chain, 1'000'000).value().cost.time_ns;
    for (uint64_t budget_bytes = 50; budget_bytes < 2000; budget_bytes += 50) {
      const auto schedule = revolve(chain, budget_bytes);
      if (!schedule) continue;
      EXPECT_LE(schedule->cost.peak_bytes, budget_bytes);
      EXPECT_GE(schedule->cost.time_ns, least);
    }
  }
}

// 16 equal stages that keep as much as their output: one segment of all, four of four, 16 of one.
TEST(Chen, CutsIntoAboutEqualSegments) {
  const Chain chain = testing::equal_chain(16, 1, 1);
  EXPECT_EQ(chen(chain, kUnlimited).value().cost.time_ns, 16 * 3u);
  const Schedule tight = chen(chain, 7).value();
  EXPECT_EQ(tight.cost.peak_bytes, 7u);
  EXPECT_EQ(tight.cost.time_ns, 16 * 3u + 12);
  const auto refused = chen(chain, 6);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "chen needs at least 7 B (7 bytes); the budget is 6 B (6 bytes)");
}

TEST(Chen, IsKeepAllWithEnoughMemoryAndCheckpointsEveryStageWithLittle) {
  Random random(2);
  const Chain chain = testing::random_chain(random, {.stages = 30});
  EXPECT_EQ(chen(chain, kUnlimited).value().operations,
            keep_all(chain, kUnlimited).value().operations);
  const Schedule every = checkpoint_every_stage(chain, kUnlimited).value();
  EXPECT_LE(chen(chain, every.cost.peak_bytes).value().cost.time_ns, every.cost.time_ns);
}

TEST(KeepAll, SaysWhatItNeeds) {
  const Chain chain = testing::equal_chain(3, 1, 5);
  EXPECT_TRUE(keep_all(chain, 15));
  EXPECT_EQ(keep_all(chain, 14).error().message,
            "keep_all needs at least 15 B (15 bytes); the budget is 14 B (14 bytes)");
}

TEST(CheckpointEveryStage, RunsAllButTheLastStageTwice) {
  const Schedule schedule =
      checkpoint_every_stage(testing::equal_chain(4, 1, 10), kUnlimited).value();
  EXPECT_EQ(schedule.cost.time_ns, 4 * 3u + 3);
  EXPECT_EQ(schedule.cost.peak_bytes, 3u + 10);
}

TEST(LowerBound, IsNeverAboveAnyScheduleThatExists) {
  Random random(3);
  size_t above_ideal = 0;
  for (uint32_t i = 0; i < 120; ++i) {
    const Chain chain = testing::random_chain(random, {.stages = 1 + i % 5, .max_options = 2});
    const uint64_t all_bytes = keep_all(chain, kUnlimited).value().cost.peak_bytes;
    const uint64_t budget_bytes = 1 + random() % (all_bytes + 1);
    const auto fastest = testing::fastest_ns(chain, budget_bytes, testing::Freedom::kAny);
    if (!fastest) continue;
    const uint64_t bound = lower_bound_ns(chain, budget_bytes);
    EXPECT_LE(bound, *fastest);
    if (bound > lower_bound_ns(chain, kUnlimited)) ++above_ideal;
  }
  EXPECT_GT(above_ideal, 10u);
}

TEST(LowerBound, IsTheIdealTimeWithEnoughMemory) {
  Random random(4);
  const Chain chain = testing::random_chain(random, {.stages = 50, .max_options = 3});
  EXPECT_EQ(lower_bound_ns(chain, kUnlimited), keep_all(chain, kUnlimited).value().cost.time_ns);
}

}  // namespace
}  // namespace vram::plan
