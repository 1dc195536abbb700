#include "base/time.hpp"

#include <gtest/gtest.h>

namespace vram {
namespace {

TEST(Nanoseconds, DurationsOfAnyTimesAreLimited) {
  EXPECT_EQ(nanoseconds_between(3, 10), 7);
  EXPECT_EQ(nanoseconds_between(10, 3), -7);
  EXPECT_EQ(nanoseconds_between(INT64_MIN, INT64_MAX), kMaxDurationNs);
  EXPECT_EQ(nanoseconds_between(INT64_MAX, INT64_MIN), -kMaxDurationNs);
  EXPECT_EQ(nanoseconds_between(0, INT64_MAX), kMaxDurationNs);
  EXPECT_EQ(nanoseconds_between(0, INT64_MIN), -kMaxDurationNs);
  EXPECT_EQ(nanoseconds_between(INT64_MAX - 7, INT64_MAX), 7);
}

TEST(Nanoseconds, SumsAreLimited) {
  EXPECT_EQ(sum_of_nanoseconds(3, -10), -7);
  EXPECT_EQ(sum_of_nanoseconds(kMaxDurationNs, kMaxDurationNs), kMaxDurationNs);
  EXPECT_EQ(sum_of_nanoseconds(-kMaxDurationNs, -1), -kMaxDurationNs);
}

}  // namespace
}  // namespace vram
