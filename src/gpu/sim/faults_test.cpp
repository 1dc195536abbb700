#include "gpu/sim/faults.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace vram::gpu {
namespace {

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
