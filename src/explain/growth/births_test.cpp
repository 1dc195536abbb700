#include "explain/growth/births.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace vram::explain {
namespace {

using Births = std::vector<uint32_t>;

Births all_of(uint32_t count) {
  Births births(count);
  std::iota(births.begin(), births.end(), 0U);
  return births;
}

TEST(LastingLogRatio, OfBirthsInEveryStepIsThatOfTheBestCache) {
  // Of a cache of n / 0.95 entries each lookup misses: the product of 1 - 0.95 i / n.
  double log_cache = 0;
  for (uint32_t i = 0; i < 10; ++i) log_cache += std::log(1 - 0.095 * i);
  EXPECT_NEAR(lasting_log_ratio(all_of(10), 10), -log_cache, 1e-4);
}

TEST(LastingLogRatio, GrowsWithTheStepsSeen) {
  EXPECT_LT(lasting_log_ratio(all_of(4), 4), std::log(10.0));
  EXPECT_GT(lasting_log_ratio(all_of(9), 9), std::log(10.0));
  EXPECT_GT(lasting_log_ratio(all_of(18), 18), lasting_log_ratio(all_of(9), 9));
}

TEST(LastingLogRatio, KnowsARhythm) {
  const Births third = {1, 4, 7, 10, 13, 16};
  EXPECT_GT(lasting_log_ratio(third, 18), std::log(10.0));
  EXPECT_GT(lasting_log_ratio(Births{1, 4, 8, 11, 14, 17}, 18), std::log(10.0)) << "one is late";
  EXPECT_LT(lasting_log_ratio(third, 40), 0) << "it broke off";
}

TEST(LastingLogRatio, IsNegativeWhereACacheFills) {
  EXPECT_LT(lasting_log_ratio(Births{0, 1, 2, 4, 7, 12}, 30), 0);
  EXPECT_LT(lasting_log_ratio(all_of(6), 30), 0);
  EXPECT_EQ(lasting_log_ratio({}, 30), 0);
}

TEST(FadingProbability, IsTheShareOfOrdersThatComeAsEarly) {
  // One birth in six steps: in none of the last two with 4 / 6, and among the first two with 2 / 6.
  EXPECT_NEAR(fading_probability(Births{1}, 6), 2.0 / 6, 1e-12);
  // Two births: both in the first four with 6 / 15, both in the first three with 3 / 15.
  EXPECT_NEAR(fading_probability(Births{0, 2}, 6), 3.0 / 15, 1e-12);
  // Of three births at most one in the last two: 1 - 4 / 20.
  EXPECT_NEAR(fading_probability(Births{0, 1, 5}, 6), 16.0 / 20, 1e-12);
  EXPECT_EQ(fading_probability(all_of(6), 6), 1.0);
  EXPECT_EQ(fading_probability({}, 6), 1.0);
}

TEST(OverdueBirths, AreThoseOfARhythmThatAreMissingAtTheEnd) {
  const Births third = {1, 4, 7, 10, 13, 16};
  EXPECT_EQ(overdue_births(third, 20), 0U) << "the next one is due in step 19, and may be late";
  EXPECT_EQ(overdue_births(third, 21), 1U);
  EXPECT_EQ(overdue_births(third, 24), 2U);
  EXPECT_EQ(overdue_births(Births{1, 4, 8, 11, 14, 17}, 24), 1U) << "one was late";
}

TEST(OverdueBirths, NeedARhythm) {
  EXPECT_EQ(overdue_births(Births{0, 1, 5, 6, 14, 16}, 40), 0U);
  EXPECT_EQ(overdue_births(all_of(10), 30), 0U) << "in every step: fading_probability() judges it";
  EXPECT_EQ(overdue_births(Births{3}, 30), 0U);
  EXPECT_EQ(overdue_births({}, 30), 0U);
}

TEST(Discoveries, AllowTheFalseShareAmongThoseBelieved) {
  using Found = std::vector<bool>;
  EXPECT_EQ(discoveries(std::vector<double>{std::log(10.1)}, 1, 0.1), Found{true});
  EXPECT_EQ(discoveries(std::vector<double>{std::log(9.9)}, 1, 0.1), Found{false});
  EXPECT_EQ(discoveries(std::vector<double>{std::log(9.9), std::log(20.1)}, 2, 0.1),
            (Found{false, true}));
  // Of twenty sites one alone needs 200; four of them 50 each.
  EXPECT_EQ(discoveries(std::vector<double>{std::log(150.0)}, 20, 0.1), Found{false});
  EXPECT_EQ(discoveries(std::vector<double>(4, std::log(51.0)), 20, 0.1), Found(4, true));
  EXPECT_EQ(discoveries(std::vector<double>(4, std::log(49.0)), 20, 0.1), Found(4, false));
  EXPECT_TRUE(discoveries({}, 20, 0.1).empty());
}

}  // namespace
}  // namespace vram::explain
