#include "explain/growth/trend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace vram::explain {
namespace {

// The definition, by going through all orders of the values.
double by_enumeration(std::vector<double> series) {
  const auto score = [](const std::vector<double>& s) {
    int sum = 0;
    for (size_t i = 0; i < s.size(); ++i) {
      for (size_t k = i + 1; k < s.size(); ++k) sum += (s[k] > s[i]) - (s[k] < s[i]);
    }
    return sum;
  };
  const int observed = score(series);
  std::sort(series.begin(), series.end());
  double all = 0;
  double as_clear = 0;
  do {
    ++all;
    if (score(series) >= observed) ++as_clear;
  } while (std::next_permutation(series.begin(), series.end()));
  return as_clear / all;
}

TEST(RisingProbability, IsTheShareOfOrdersThatRiseAsClearly) {
  std::mt19937 random(1);
  for (size_t n = 3; n <= 8; ++n) {
    for (int round = 0; round < 20; ++round) {
      std::vector<double> series(n);
      for (double& v : series) v = static_cast<double>(random() % 4);  // many ties
      if (std::all_of(series.begin(), series.end(), [&](double v) { return v == series[0]; }))
        continue;
      EXPECT_NEAR(rising_probability(series), by_enumeration(series), 1e-9);
    }
  }
}

TEST(RisingProbability, KnownValues) {
  EXPECT_NEAR(rising_probability(std::vector<double>{1, 2, 3, 4, 5, 6}), 1.0 / 720, 1e-12);
  EXPECT_EQ(rising_probability(std::vector<double>{5, 5, 5, 5}), 1.0);
  EXPECT_EQ(rising_probability(std::vector<double>{1, 2}), 1.0);
  EXPECT_NEAR(rising_probability(std::vector<double>{6, 5, 4, 3, 2, 1}), 1.0, 1e-12);
}

TEST(RisingProbability, TheApproximationMeetsTheExactValue) {
  std::mt19937 random(2);
  std::vector<double> series(kExactLimit);
  for (size_t i = 0; i < series.size(); ++i) {
    const size_t step = i / 3;
    series[i] = static_cast<double>(step + random() % 8);
  }
  const double exact = rising_probability(series);
  series.push_back(9);  // one beyond the limit, near the middle: much the same series
  EXPECT_NEAR(std::log10(rising_probability(series)), std::log10(exact), 0.7);
}

TEST(RisingProbability, IsUniformWithoutATrend) {
  std::mt19937 random(3);
  int below = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> series(30);
    for (double& v : series) v = static_cast<double>(random() % 1000);
    if (rising_probability(series) < 0.05) ++below;
  }
  EXPECT_NEAR(below, 100, 30);
}

TEST(TheilSen, IgnoresOutliers) {
  std::vector<double> series;
  for (int i = 0; i < 30; ++i) series.push_back(100 + 7.0 * i);
  series[3] = 1e9;
  series[20] = 0;
  const Slope slope = theil_sen(series);
  EXPECT_NEAR(slope.median, 7, 0.01);
  EXPECT_GT(slope.lower, 0);
  EXPECT_LE(slope.lower, slope.median);
}

TEST(TheilSen, ThinsLongSeriesWithoutChangingTheSlope) {
  std::vector<double> series;
  for (int i = 0; i < 100'000; ++i) series.push_back(3.0 * i);
  EXPECT_NEAR(theil_sen(series).median, 3, 1e-9);
  EXPECT_LT(rising_probability(series), 1e-6);
}

TEST(TheilSen, FlatAndShort) {
  EXPECT_EQ(theil_sen(std::vector<double>{4, 4, 4, 4}).median, 0);
  EXPECT_EQ(theil_sen(std::vector<double>{4}).median, 0);
}

TEST(Corrected, FollowsBenjaminiAndHochberg) {
  const std::vector<double> q = corrected(std::vector<double>{0.01, 0.04, 0.03, 0.005}, 4);
  EXPECT_NEAR(q[3], 0.02, 1e-12);
  EXPECT_NEAR(q[0], 0.02, 1e-12);
  EXPECT_NEAR(q[2], 0.04, 1e-12);
  EXPECT_NEAR(q[1], 0.04, 1e-12);
  EXPECT_NEAR(corrected(std::vector<double>{0.01}, 10)[0], 0.1, 1e-12);
}

TEST(LaplaceScore, TellsEarlyFromEven) {
  const std::vector<uint32_t> even = {5, 15, 25, 35, 45, 55, 65, 75, 85, 95};
  const std::vector<uint32_t> early = {0, 1, 2, 3, 4, 5, 6, 8, 12, 20};
  EXPECT_NEAR(laplace_score(even, 100), 0, 0.3);
  EXPECT_LT(laplace_score(early, 100), -3);
  EXPECT_EQ(laplace_score({}, 100), 0);
}

}  // namespace
}  // namespace vram::explain
