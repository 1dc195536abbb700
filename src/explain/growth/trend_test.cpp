#include "explain/growth/trend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace vram::explain {
namespace {

using Series = std::vector<double>;

TEST(MannKendall, IsExactWithoutTies) {
  // Of the 24 orders of four values, one has 6 rising pairs, three more have 5, five more have 4.
  EXPECT_NEAR(mann_kendall(Series{1, 2, 3, 4}).p_value, 1.0 / 24, 1e-12);
  EXPECT_NEAR(mann_kendall(Series{1, 2, 4, 3}).p_value, 4.0 / 24, 1e-12);
  EXPECT_NEAR(mann_kendall(Series{2, 1, 4, 3}).p_value, 9.0 / 24, 1e-12);
  EXPECT_NEAR(mann_kendall(Series{4, 3, 2, 1}).p_value, 1, 1e-12);
  EXPECT_NEAR(mann_kendall(Series{1, 2, 3, 4, 5, 6, 7}).p_value, 1.0 / 5040, 1e-12);
}

TEST(MannKendall, CorrectsTheVarianceForTies) {
  // Twelve values in six pairs of equals, rising: S = 66 - 6;
  // 18 Var = 12 * 11 * 29 - 6 * (2 * 1 * 9) = 3720.
  const Series pairs = {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6};
  const double z = 59 / std::sqrt(3720.0 / 18);
  EXPECT_NEAR(mann_kendall(pairs).p_value, std::erfc(z / std::sqrt(2.0)) / 2, 1e-15);
  EXPECT_EQ(mann_kendall(pairs).p_value, mann_kendall(pairs).least_p_value);
}

TEST(MannKendall, OfEqualValuesSaysNothing) {
  EXPECT_EQ(mann_kendall(Series(20, 5.0)).p_value, 1);
  EXPECT_EQ(mann_kendall(Series(20, 5.0)).least_p_value, 1);
  EXPECT_EQ(mann_kendall({}).p_value, 1);
  EXPECT_EQ(mann_kendall(Series{1}).p_value, 1);
}

TEST(MannKendall, ErrsAsOftenAsItsPValueSays) {
  std::mt19937 random(3);
  for (const size_t length : {8, 12, 40}) {
    int rejections = 0;
    for (int run = 0; run < 4000; ++run) {
      Series series;
      for (size_t i = 0; i < length; ++i)
        series.push_back(static_cast<double>(random() % (2 * length)));
      rejections += mann_kendall(series).p_value <= 0.05 ? 1 : 0;
    }
    EXPECT_GT(rejections, 4000 * 0.02) << length;
    EXPECT_LT(rejections, 4000 * 0.06) << length;
  }
}

TEST(SenSlope, IsTheMedianOfTheSlopes) {
  const Slope slope = sen_slope(Series{0, 10, 20, 30, 1000, 50, 60});
  EXPECT_EQ(slope.median, 10);
  EXPECT_LE(slope.low, 10);
  EXPECT_GE(slope.high, 10);
  EXPECT_EQ(sen_slope(Series{3}).median, 0);
  EXPECT_EQ(sen_slope(Series{3, 5}).low, 2);
}

TEST(SenSlope, TheIntervalHoldsTheTrueSlopeInNineteenOfTwentyRuns) {
  std::mt19937 random(5);
  std::normal_distribution<double> noise(0, 5);
  int held = 0;
  for (int run = 0; run < 1000; ++run) {
    Series series;
    for (int i = 0; i < 20; ++i) series.push_back(2.0 * i + noise(random));
    const Slope slope = sen_slope(series);
    held += slope.low <= 2 && slope.high >= 2 ? 1 : 0;
  }
  EXPECT_GT(held, 930);
  EXPECT_LT(held, 980);
}

TEST(Rejected, IsBenjaminiAndHochbergs) {
  const auto tests = [](std::initializer_list<double> p_values) {
    std::vector<Trend> trends;
    for (const double p : p_values) trends.push_back({p, 1e-9});
    return trends;
  };
  using Found = std::vector<bool>;
  EXPECT_EQ(rejected(tests({0.02, 0.04, 0.9}), 0, 0.05), (Found{false, false, false}));
  EXPECT_EQ(rejected(tests({0.03, 0.01, 0.9}), 0, 0.05), (Found{true, true, false}));
  EXPECT_EQ(rejected(tests({0.03, 0.01, 0.9}), 97, 0.05), (Found{false, false, false}));
  EXPECT_EQ(rejected(tests({1e-4, 0.9}), 98, 0.05), (Found{true, false}));
}

TEST(Rejected, SeriesThatCannotRiseAreNoTests) {
  std::vector<Trend> trends(100);
  trends.push_back({0.01, 0.001});
  EXPECT_TRUE(rejected(trends, 0, 0.05).back());
  EXPECT_EQ(std::ranges::count(rejected(trends, 0, 0.05), true), 1);
}

}  // namespace
}  // namespace vram::explain
