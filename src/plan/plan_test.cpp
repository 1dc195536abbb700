#include "plan/plan.hpp"

#include "plan/solve/solvers.hpp"
#include "plan/testing/chains.hpp"
#include "plan/verify.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace vram::plan {
namespace {

TEST(Plan, IsTheFastestScheduleOfAllSolvers) {
  testing::Random random(1);
  for (int i = 0; i < 20; ++i) {
    const Chain chain = testing::random_chain(
        random, {.stages = 30, .max_bytes = 1 << 20, .max_ns = 1 << 20, .max_options = 3});
    const uint64_t smallest = smallest_budget_bytes(chain);
    const Plan plan = make_plan(chain, smallest + random() % (40 << 20), {.slots = 500}).value();
    ASSERT_EQ(plan.attempts.size(), 5u);
    for (const Attempt& each : plan.attempts) {
      EXPECT_EQ(each.why_not.empty(), each.schedule.has_value()) << each.solver;
      if (!each.schedule) continue;
      const auto cost = verify(chain, each.schedule->operations, plan.budget_bytes);
      EXPECT_EQ(cost.value().time_ns, each.schedule->cost.time_ns);
      EXPECT_LE(plan.best.cost.time_ns, each.schedule->cost.time_ns);
      EXPECT_GE(each.schedule->cost.time_ns, plan.lower_bound_ns);
      ASSERT_TRUE(plan.persistent_bound_ns);
      EXPECT_GE(each.schedule->cost.time_ns, *plan.persistent_bound_ns);
    }
  }
}

TEST(Plan, KeepsEverythingIfItFits) {
  testing::Random random(2);
  const Chain chain = testing::random_chain(random, {.stages = 10});
  const Plan plan = make_plan(chain, std::numeric_limits<uint64_t>::max()).value();
  EXPECT_EQ(plan.best.cost.time_ns, plan.ideal_ns);
  EXPECT_EQ(plan.lower_bound_ns, plan.ideal_ns);
  const Plan exact = make_plan(chain, plan.ideal_peak_bytes).value();
  EXPECT_EQ(exact.best.cost.time_ns, plan.ideal_ns);
}

TEST(Plan, SaysWhyNothingFits) {
  const Chain chain = testing::equal_chain(3, 1, 5);
  EXPECT_EQ(make_plan(chain, 5).error().message,
            "no schedule fits into 5 B (5 bytes); the smallest budget for this chain is 6 B (6 "
            "bytes)");
  EXPECT_TRUE(make_plan(chain, 6));
  EXPECT_FALSE(make_plan({}, 5));
}

TEST(Sweep, GoesFromTheSmallestBudgetToNoRecomputation) {
  testing::Random random(3);
  for (int run = 0; run < 30; ++run) {
    const Chain chain = testing::random_chain(random, {.stages = 6});
    const std::vector<Plan> plans = sweep(chain, 5).value();
    EXPECT_EQ(plans.front().budget_bytes, smallest_budget_bytes(chain));
    EXPECT_EQ(plans.back().best.cost.time_ns, plans.back().ideal_ns);
    for (size_t i = 1; i < plans.size(); ++i) {
      EXPECT_GE(plans[i].budget_bytes, plans[i - 1].budget_bytes);
      EXPECT_LE(plans[i].best.cost.time_ns, plans[i - 1].best.cost.time_ns);
    }
  }
  // Each stage frees what the other needs, so that there is nothing to choose.
  EXPECT_EQ(sweep(testing::equal_chain(1, 1, 1), 5).value().size(), 1u);
}

}  // namespace
}  // namespace vram::plan
