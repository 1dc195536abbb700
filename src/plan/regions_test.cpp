#include "plan/regions.hpp"

#include "plan/solve/rotor.hpp"
#include "plan/solve/solvers.hpp"
#include "plan/testing/chains.hpp"

#include <gtest/gtest.h>

namespace vram::plan {
namespace {

using testing::kUnlimited;

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
