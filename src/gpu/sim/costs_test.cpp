#include "gpu/sim/costs.hpp"

#include <gtest/gtest.h>

namespace vram::gpu {
namespace {

TEST(CostsTest, MeasuredSizesCostWhatWasMeasured) {
  const Costs costs;
  EXPECT_EQ(costs.of(Call::kCreate, 2 * kMiB), 6'700);
  EXPECT_EQ(costs.of(Call::kCreate, 20 * kMiB), 5'800);
  EXPECT_EQ(costs.of(Call::kCreate, kGiB), 13'000);
  EXPECT_EQ(costs.of(Call::kSetAccess, 64 * kMiB), 20'000);
  EXPECT_EQ(costs.of(Call::kSetAccess, kGiB), 45'000);
  EXPECT_EQ(costs.of(Call::kUnmap, kGiB), 22'000);
  EXPECT_EQ(costs.of(Call::kRelease, 2 * kMiB), 7'000);
  EXPECT_EQ(costs.of(Call::kRelease, 64 * kMiB), 24'000);
  EXPECT_EQ(costs.of(Call::kRelease, kGiB), 240'000);
  EXPECT_EQ(costs.of(Call::kAllocSegment, 20 * kMiB), 31'000);
  EXPECT_EQ(costs.of(Call::kAllocSegment, kGiB), 65'000);
  EXPECT_EQ(costs.of(Call::kFreeSegment, 20 * kMiB), 31'000);
  EXPECT_EQ(costs.of(Call::kFreeSegment, kGiB), 240'000);
}

TEST(CostsTest, AnEventsLifeCostsWhatWasMeasuredTogether) {
  const Costs costs;
  EXPECT_EQ(costs.record_ns + costs.query_ns + costs.destroy_ns, 480);
}

TEST(CostsTest, BetweenMeasuredSizesTheCostLiesOnTheLine) {
  const Costs costs;
  EXPECT_EQ(costs.of(Call::kAllocSegment, (20 * kMiB + kGiB) / 2), (31'000 + 65'000) / 2);
  EXPECT_EQ(costs.of(Call::kCreate, 11 * kMiB), (6'700 + 5'800) / 2);
  EXPECT_EQ(costs.of(Call::kRelease, 33 * kMiB), (7'000 + 24'000) / 2);
}

TEST(CostsTest, BelowTheSmallestSizeItIsThatOfTheSmallestAndAboveTheLargestTheLineGoesOn) {
  const Costs costs;
  EXPECT_EQ(costs.of(Call::kAllocSegment, 0), 31'000);
  EXPECT_EQ(costs.of(Call::kAllocSegment, 2 * kMiB), 31'000);
  const uint64_t stride = kGiB - 20 * kMiB;
  EXPECT_EQ(costs.of(Call::kFreeSegment, kGiB + stride), 240'000 + (240'000 - 31'000));
}

}  // namespace
}  // namespace vram::gpu
