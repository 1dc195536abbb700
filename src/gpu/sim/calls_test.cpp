#include "gpu/sim/calls.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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

std::string pattern(Faults& faults, int calls, Call call = Call::kMap) {
  std::string text;
  for (int i = 0; i < calls; ++i) text += faults.next(call) == Status::kOk ? '.' : 'x';
  return text;
}

TEST(FaultsTest, NothingFailsUnasked) {
  Faults faults;
  EXPECT_EQ(pattern(faults, 5), ".....");
}

TEST(FaultsTest, TheNthCallFailsOnce) {
  Faults faults;
  faults.fail_nth(3, Status::kOutOfMemory);
  EXPECT_EQ(pattern(faults, 6), "..x...");
}

TEST(FaultsTest, TheNthOfOneKindCountsThatKindAlone) {
  Faults faults;
  faults.fail_nth(Call::kMap, 2, Status::kOutOfMemory);
  EXPECT_EQ(pattern(faults, 4, Call::kCreate), "....");
  EXPECT_EQ(pattern(faults, 4, Call::kMap), ".x..");
}

TEST(FaultsTest, SeveralPlansHoldAtOnce) {
  Faults faults;
  faults.fail_nth(1, Status::kOutOfMemory);
  faults.fail_nth(4, Status::kNotSupported);
  EXPECT_EQ(faults.next(Call::kCreate), Status::kOutOfMemory);
  EXPECT_EQ(pattern(faults, 2), "..");
  EXPECT_EQ(faults.next(Call::kCreate), Status::kNotSupported);
}

TEST(FaultsTest, RandomFaultsFollowTheSeedAndTheRate) {
  Faults a;
  Faults b;
  Faults c;
  a.fail_at_random(0.25, 1, Status::kOutOfMemory);
  b.fail_at_random(0.25, 1, Status::kOutOfMemory);
  c.fail_at_random(0.25, 2, Status::kOutOfMemory);
  const std::string first = pattern(a, 10'000);
  EXPECT_EQ(first, pattern(b, 10'000));
  EXPECT_NE(first, pattern(c, 10'000));
  const auto failed = std::count(first.begin(), first.end(), 'x');
  EXPECT_NEAR(static_cast<double>(failed), 2'500, 200);
}

TEST(FaultsTest, RandomFaultsMayHitOneKindAlone) {
  Faults faults;
  faults.fail_at_random(1, 1, Status::kOutOfMemory, Call::kCreate);
  EXPECT_EQ(pattern(faults, 3, Call::kMap), "...");
  EXPECT_EQ(pattern(faults, 3, Call::kCreate), "xxx");
}

TEST(FaultsTest, ADeviceThatFailedStaysSo) {
  Faults faults;
  faults.fail_nth(2, Status::kFault);
  EXPECT_EQ(pattern(faults, 5), ".xxxx");
  EXPECT_EQ(faults.next(Call::kQuery), Status::kFault);
  faults.clear();
  EXPECT_EQ(pattern(faults, 3), "...");
}

}  // namespace

}  // namespace vram::gpu
