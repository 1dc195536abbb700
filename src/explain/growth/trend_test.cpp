#include "explain/growth/trend.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vram::explain {
namespace {

TEST(TheilSen, IgnoresOutliers) {
  std::vector<double> series;
  for (int i = 0; i < 30; ++i) series.push_back(100 + 7.0 * i);
  series[3] = 1e9;
  series[20] = 0;
  EXPECT_NEAR(theil_sen(series), 7, 0.01);
}

TEST(TheilSen, ThinsLongSeriesWithoutChangingTheSlope) {
  std::vector<double> series;
  for (int i = 0; i < 100'000; ++i) series.push_back(3.0 * i);
  EXPECT_NEAR(theil_sen(series), 3, 1e-9);
}

TEST(TheilSen, FlatAndShort) {
  EXPECT_EQ(theil_sen(std::vector<double>{4, 4, 4, 4}), 0);
  EXPECT_EQ(theil_sen(std::vector<double>{4}), 0);
}

TEST(TheilSen, TakesTheMiddleOfAnEvenNumberOfSlopes) {
  EXPECT_NEAR(theil_sen(std::vector<double>{0, 2, 4, 10}), 8.0 / 3,
              1e-12);  // of 2, 2, 2, 10/3, 4, 6
}

}  // namespace
}  // namespace vram::explain
