#include "base/median.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

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

}  // namespace
}  // namespace vram
