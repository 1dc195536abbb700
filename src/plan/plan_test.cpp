#include "plan/plan.hpp"

#include "plan/solve/rotor.hpp"
#include "plan/solve/solvers.hpp"
#include "plan/testing/chains.hpp"
#include "plan/verify.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace vram::plan {
namespace {

using testing::kUnlimited;

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

// "k" keeps; "(…)" is a region that runs again as what is in it.
std::string text_of(const std::vector<Region>& regions) {
  std::string text;
  for (const Region& each : regions) text += each.option ? "k" : "(" + text_of(each.parts) + ")";
  return text;
}

std::string regions_text(const Schedule& schedule, uint32_t stages) {
  const auto regions = regions_of(schedule.operations, stages);
  return regions ? text_of(*regions) : "none";
}

TEST(Regions, NestAsTheScheduleDoes) {
  const Chain chain = testing::equal_chain(4, 1, 1000);
  EXPECT_EQ(regions_text(keep_all(chain, kUnlimited).value(), 4), "kkkk");
  EXPECT_EQ(regions_text(checkpoint_every_stage(chain, kUnlimited).value(), 4), "(k)(k)(k)k");
  // Three stages run, the last one keeps; then two run, the third keeps; ...
  EXPECT_EQ(regions_text(revolve(chain, 1001).value(), 4), "(((k)k)k)k");
}

TEST(Regions, CoverEveryStageOfEverySchedule) {
  testing::Random random(1);
  for (uint32_t stages = 1; stages < 40; ++stages) {
    const Chain chain = testing::random_chain(random, {.stages = stages, .max_options = 2});
    const uint64_t budget_bytes = smallest_budget_bytes(chain) + random() % 50;
    const Schedule schedule = rotor(chain, budget_bytes).value().schedule;
    const auto regions = regions_of(schedule.operations, stages);
    ASSERT_TRUE(regions);
    uint32_t next = 0;
    for (const Region& each : *regions) {
      EXPECT_EQ(each.first, next);
      next = each.last + 1;
    }
    EXPECT_EQ(next, stages);
  }
}

TEST(Regions, AreAbsentForWhatDoesNotNest) {
  EXPECT_FALSE(regions_of(std::vector<Operation>{}, 1));
  EXPECT_FALSE(regions_of(std::vector<Operation>{{OpKind::kForwardKeepInput, 0}}, 1));
  EXPECT_FALSE(regions_of(
      std::vector<Operation>{
          {OpKind::kForwardSave, 0}, {OpKind::kBackward, 0}, {OpKind::kFetch, 0}},
      1));
}

TEST(Regions, CountTheRunsOfEachForward) {
  const Schedule schedule = revolve(testing::equal_chain(4, 1, 1000), 1001).value();
  EXPECT_EQ(forward_runs(schedule.operations, 4), (std::vector<uint32_t>{4, 3, 2, 1}));
}

}  // namespace

}  // namespace vram::plan
