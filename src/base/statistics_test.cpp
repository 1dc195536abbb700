#include "base/statistics.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace vram {
namespace {

TEST(MedianOf, IsTheMiddleOrTheMeanOfTheTwo) {
  EXPECT_EQ(median_of(std::vector<int>{5, 1, 3}), 3);
  EXPECT_EQ(median_of(std::vector<int>{7, 1, 3, 4}), 3);
  EXPECT_EQ(median_of(std::vector<int64_t>{-10, -20}), -20 + 5);
  EXPECT_DOUBLE_EQ(median_of(std::vector<double>{1, 2}), 1.5);
  constexpr uint64_t kMaxInteger = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(median_of(std::vector<uint64_t>{kMaxInteger, kMaxInteger - 2}), kMaxInteger - 1);
  EXPECT_EQ(median_of(std::vector<int>{}), 0);
}

TEST(TheilSen, IgnoresOutliers) {
  std::vector<Point> points;
  for (int i = 0; i < 30; ++i) points.push_back({static_cast<double>(i), 100 + 7.0 * i});
  points[3].y = 1e9;
  points[20].y = 0;
  EXPECT_NEAR(theil_sen(points), 7, 0.01);
}

TEST(TheilSen, FlatAndShort) {
  EXPECT_EQ(theil_sen(std::vector<Point>{{0, 4}, {1, 4}, {2, 4}, {3, 4}}), 0);
  EXPECT_EQ(theil_sen(std::vector<Point>{{0, 4}}), 0);
  EXPECT_EQ(theil_sen({}), 0);
}

TEST(TheilSen, TakesTheMiddleOfAnEvenNumberOfSlopes) {
  EXPECT_NEAR(theil_sen(std::vector<Point>{{0, 0}, {1, 2}, {2, 4}, {3, 10}}), 8.0 / 3,
              1e-12);  // of 2, 2, 2, 10/3, 4, 6
}

TEST(TheilSen, PointsNeedNotBeEvenlySpaced) {
  EXPECT_EQ(theil_sen(std::vector<Point>{{0, 1}, {1, 3}, {5, 11}, {6, 13}, {7, 500}}), 2);
}

}  // namespace
}  // namespace vram
