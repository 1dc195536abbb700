// Which grain answers a question, and in what steps.
#include "history/query.hpp"

#include "base/time.hpp"
#include "history/testing/history_samples.hpp"

#include <gtest/gtest.h>

namespace vram::history {
namespace {

using testing::kDayBegin;
using testing::kHour;
using testing::kMinute;

constexpr int64_t kDay = 24 * kHour;

// Kept for a year by now.
QueryPlan plan_of(int64_t from_ns, int64_t step_ns) {
  HistoryQuery query;
  query.from_ns = from_ns;
  query.to_ns = kDayBegin;
  query.step_ns = step_ns;
  return plan_query(query, {{}, kDayBegin - 365 * kDay, kDayBegin});
}

TEST(PlanTest, TheCoarsestGrainThatTheStepAllows) {
  EXPECT_EQ(plan_of(kDayBegin - kHour, kSignedSecondNs).grain, 0u);
  EXPECT_EQ(plan_of(kDayBegin - kHour, 59 * kSignedSecondNs).grain, 0u);
  EXPECT_EQ(plan_of(kDayBegin - kHour, kMinute).grain, 1u);
  EXPECT_EQ(plan_of(kDayBegin - kHour, kHour).grain, 2u);
}

TEST(PlanTest, StepsAreWholeGrainsAndBeginAtTheirMultiples) {
  const QueryPlan plan = plan_of(kDayBegin - kHour + 7 * kSignedSecondNs, 144 * kSignedSecondNs);
  EXPECT_EQ(plan.step_ms, 180'000);
  EXPECT_EQ(plan.from_ms, (kDayBegin - kHour) / 1'000'000);
  EXPECT_EQ(plan_of(kDayBegin - kHour, 7 * kSignedSecondNs).step_ms, 7000);
  EXPECT_EQ(plan_of(kDayBegin - kHour, 0).step_ms, 1);
}

TEST(PlanTest, WhatIsOlderComesFromACoarserGrain) {
  EXPECT_EQ(plan_of(kDayBegin - 2 * kDay, kSignedSecondNs).grain, 1u);
  EXPECT_EQ(plan_of(kDayBegin - 2 * kDay, kSignedSecondNs).step_ms, 60'000);
  EXPECT_EQ(plan_of(kDayBegin - 40 * kDay, kSignedSecondNs).grain, 2u);
  EXPECT_EQ(plan_of(0, kSignedSecondNs).step_ms, 3'600'000);
}

TEST(PlanTest, AllOfAYoungHistoryIsFine) {
  HistoryQuery query;
  query.step_ns = kSignedSecondNs;
  const QueryScope young = {{}, kDayBegin - kHour, kDayBegin};
  EXPECT_EQ(plan_query(query, young).grain, 0u);
  EXPECT_EQ(plan_query(query, young).from_ms, (kDayBegin - kHour) / 1'000'000);
  EXPECT_EQ(plan_query(query, {}).grain, 0u);
}

TEST(PlanTest, AbsurdTimesAreBounded) {
  HistoryQuery query;
  query.from_ns = INT64_MIN;
  query.to_ns = INT64_MAX;
  query.step_ns = INT64_MAX;
  const QueryPlan plan = plan_query(query, {});
  EXPECT_EQ(plan.from_ms, 0);
  EXPECT_GT(plan.to_ms, kDayBegin / 1'000'000);
  EXPECT_EQ(plan.grain, 2u);
}

}  // namespace
}  // namespace vram::history
