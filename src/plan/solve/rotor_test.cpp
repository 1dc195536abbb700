#include "plan/solve/rotor.hpp"

#include "base/bytes.hpp"
#include "plan/solve/solvers.hpp"
#include "plan/testing/chains.hpp"
#include "plan/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vram::plan {
namespace {

using testing::ChainShape;
using testing::Freedom;
using testing::kUnlimited;
using testing::Random;

uint64_t keep_all_bytes(const Chain& chain) {
  return keep_all(chain, kUnlimited).value().cost.peak_bytes;
}

// A budget between a little too small and more than enough.
uint64_t pick_budget(Random& random, const Chain& chain) {
  const uint64_t smallest = smallest_budget_bytes(chain);
  const uint64_t largest = std::max(smallest, keep_all_bytes(chain));
  return smallest - std::min<uint64_t>(smallest, 2) + random() % (largest - smallest + 4);
}

void expect_same_as_search(const Chain& chain, uint64_t budget_bytes) {
  const auto fastest = testing::fastest_ns(chain, budget_bytes, Freedom::kPersistent);
  const auto found = rotor(chain, budget_bytes);
  ASSERT_EQ(found.has_value(), fastest.has_value());
  EXPECT_EQ(fastest.has_value(), budget_bytes >= smallest_budget_bytes(chain));
  if (!found) return;
  EXPECT_EQ(found->schedule.cost.time_ns, *fastest);
  EXPECT_EQ(found->lower_bound_ns, *fastest);
  EXPECT_LE(found->schedule.cost.peak_bytes, budget_bytes);
}

// Every length up to 8, with and without transients, gradients and options.
TEST(Rotor, EqualsASearchOfAllPersistentSchedules) {
  Random random(1);
  for (uint32_t i = 0; i < 400; ++i) {
    const ChainShape shape{.stages = 1 + i % 8,
                           .max_options = 1 + i / 8 % 3,
                           .has_transients = i / 32 % 2 == 0,
                           .has_gradients = i / 64 % 2 == 0};
    const Chain chain = testing::random_chain(random, shape);
    SCOPED_TRACE(i);
    expect_same_as_search(chain, pick_budget(random, chain));
  }
}

// Sizes that are no multiples of a slot: never above the budget, never below the optimum, and close
// to it.
TEST(Rotor, StaysNearTheOptimumWithSizesOfAnyNumberOfBytes) {
  Random random(2);
  uint64_t found_ns = 0;
  uint64_t fastest_ns = 0;
  for (uint32_t i = 0; i < 60; ++i) {
    const Chain chain = testing::random_chain(
        random, {.stages = 7, .max_bytes = 3'000'000'019, .max_ns = 1000, .max_options = 2});
    const uint64_t budget_bytes = pick_budget(random, chain);
    const auto fastest = testing::fastest_ns(chain, budget_bytes, Freedom::kPersistent);
    const auto found = rotor(chain, budget_bytes, {.slots = 2000});
    ASSERT_EQ(found.has_value(), fastest.has_value());
    if (!found) continue;
    EXPECT_FALSE(found->sizes_are_exact);
    EXPECT_LE(found->schedule.cost.peak_bytes, budget_bytes);
    EXPECT_GE(found->schedule.cost.time_ns, *fastest);
    ASSERT_TRUE(found->lower_bound_ns);
    EXPECT_LE(*found->lower_bound_ns, *fastest);
    found_ns += found->schedule.cost.time_ns;
    fastest_ns += *fastest;
  }
  EXPECT_GT(fastest_ns, 0u);
  EXPECT_LE(static_cast<double>(found_ns), 1.002 * static_cast<double>(fastest_ns));
}

TEST(Rotor, EqualsTheFullTableUpTo60Stages) {
  Random random(3);
  for (const uint32_t stages : {9u, 20u, 40u, 60u}) {
    const Chain chain =
        testing::random_chain(random, {.stages = stages, .max_bytes = 8, .max_options = 2});
    const uint64_t smallest = smallest_budget_bytes(chain);
    for (const uint64_t more : {0, 10, 60, 300}) {
      const auto expected = testing::full_table_ns(chain, smallest + more);
      ASSERT_TRUE(expected);
      EXPECT_EQ(rotor(chain, smallest + more).value().schedule.cost.time_ns, *expected);
    }
  }
}

// Chains above 64 stages begin with sweeps of up to 32. With two slots, the first sweep of the
// optimum runs most of the chain; with one, nothing else fits.
TEST(Rotor, DoublesTheWindowUntilItNoLongerMatters) {
  const Chain equal = testing::equal_chain(90, 1, 1000);
  for (const uint64_t slots : {1u, 2u, 30u}) {
    const RotorSchedule found = rotor(equal, 1000 + slots).value();
    EXPECT_EQ(found.schedule.cost.time_ns, 3 * 90 + revolve_runs(90, slots));
    EXPECT_GE(found.window, slots <= 2 ? 64u : 32u);
  }
  Random random(4);
  const Chain chain = testing::random_chain(random, {.stages = 90, .max_bytes = 6});
  const uint64_t budget_bytes = smallest_budget_bytes(chain) + 30;
  EXPECT_EQ(rotor(chain, budget_bytes).value().schedule.cost.time_ns,
            testing::full_table_ns(chain, budget_bytes));
}

// Only the running stage can keep more than its output, so the optimum is Revolve's.
TEST(Rotor, EqualsRevolveForEqualStages) {
  for (const uint32_t stages : {1u, 2u, 5u, 12u, 33u, 60u}) {
    const Chain chain = testing::equal_chain(stages, 1, 1000);
    for (const uint64_t slots : {1u, 2u, 3u, 7u, 40u}) {
      const RotorSchedule found = rotor(chain, 1000 + slots).value();
      const uint64_t runs = found.schedule.cost.time_ns - 3 * stages;
      EXPECT_EQ(runs, revolve_runs(stages, slots)) << stages << " stages, " << slots << " slots";
    }
  }
}

TEST(Rotor, IsNeverSlowerWithALargerBudget) {
  Random random(5);
  const Chain chain = testing::random_chain(random, {.stages = 25, .max_options = 2});
  uint64_t before_ns = kUnlimited;
  const uint64_t smallest = smallest_budget_bytes(chain);
  for (uint64_t budget_bytes = smallest; budget_bytes <= keep_all_bytes(chain); budget_bytes += 3) {
    const uint64_t time_ns = rotor(chain, budget_bytes).value().schedule.cost.time_ns;
    EXPECT_LE(time_ns, before_ns) << budget_bytes;
    before_ns = time_ns;
  }
  EXPECT_EQ(rotor(chain, kUnlimited).value().schedule.cost.time_ns,
            keep_all(chain, kUnlimited).value().cost.time_ns);
}

TEST(Rotor, IsNeverSlowerWithMoreOptions) {
  Random random(6);
  for (int i = 0; i < 40; ++i) {
    const Chain rich = testing::random_chain(random, {.stages = 12, .max_options = 4});
    Chain poor = rich;
    for (Stage& stage : poor.stages) stage.options.resize(1);
    const uint64_t budget_bytes = smallest_budget_bytes(poor) + random() % 100;
    const auto few = rotor(poor, budget_bytes);
    const auto many = rotor(rich, budget_bytes);
    EXPECT_LE(many.value().schedule.cost.time_ns, few.value().schedule.cost.time_ns);
  }
}

TEST(Rotor, NamesTheSmallestBudgetIfNothingFits) {
  Random random(7);
  const Chain chain = testing::random_chain(random, {.stages = 100, .max_bytes = 1 << 20});
  const uint64_t smallest = smallest_budget_bytes(chain);
  EXPECT_LE(rotor(chain, smallest).value().schedule.cost.peak_bytes, smallest);
  const auto refused = rotor(chain, smallest - 1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(fmt::format("{} bytes", smallest)), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(rotor(chain, 0));
}

TEST(Rotor, UsesCoarserSlotsWhereTheTableWouldBeTooLarge) {
  Random random(8);
  const Chain chain = testing::random_chain(random, {.stages = 200, .max_bytes = 1 << 30});
  const uint64_t budget_bytes = keep_all_bytes(chain) / 4;
  const RotorSchedule fine = rotor(chain, budget_bytes).value();
  const RotorSchedule coarse = rotor(chain, budget_bytes, {.max_table_bytes = kMiB}).value();
  EXPECT_LE(fine.table_bytes, 200 * kMiB);
  EXPECT_LE(coarse.table_bytes, kMiB);
  EXPECT_GT(coarse.slot_bytes, fine.slot_bytes);
  EXPECT_LE(coarse.schedule.cost.peak_bytes, budget_bytes);
  const RotorSchedule none = rotor(chain, budget_bytes, {.max_table_bytes = 1}).value();
  EXPECT_EQ(none.slot_bytes, 0u);
  EXPECT_LE(none.schedule.cost.peak_bytes, budget_bytes);
}

TEST(Rotor, AcceptsZeroAndHugeSizes) {
  Chain zeros;
  zeros.stages.resize(3);
  for (Stage& stage : zeros.stages) stage.options.resize(1);
  EXPECT_EQ(rotor(zeros, 0).value().schedule.cost.peak_bytes, 0u);
  Random random(9);
  const Chain huge = testing::random_chain(
      random, {.stages = 40, .max_bytes = kMaxStageBytes / 8, .max_ns = kMaxDurationNs / 2});
  for (const uint64_t budget_bytes : {smallest_budget_bytes(huge), kUnlimited}) {
    const RotorSchedule found = rotor(huge, budget_bytes).value();
    EXPECT_LE(found.schedule.cost.peak_bytes, budget_bytes);
    EXPECT_GE(found.schedule.cost.time_ns, found.lower_bound_ns);
  }
}

TEST(Rotor, IsDeterministic) {
  Random random(10);
  const Chain chain = testing::random_chain(random, {.stages = 150, .max_bytes = 1 << 30});
  const uint64_t budget_bytes = keep_all_bytes(chain) / 3;
  const RotorSettings settings{.slots = 500};
  EXPECT_EQ(rotor(chain, budget_bytes, settings).value().schedule.operations,
            rotor(chain, budget_bytes, settings).value().schedule.operations);
}

}  // namespace
}  // namespace vram::plan
