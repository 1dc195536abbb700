#include "history/prune_clock.hpp"

#include "base/time.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::history {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

constexpr int64_t kMinuteS = 60;
constexpr int64_t kDayS = 24 * 3600;
constexpr int64_t kYearS = 365 * kDayS;
constexpr int64_t kNow = 1'795'305'600;  // 2026-11-22

// A machine: its clock, and how far that is ahead of the time that passes.
class Machine {
 public:
  explicit Machine(const std::string& saved = "", std::optional<int64_t> newest_s = std::nullopt)
      : clock(std::chrono::minutes(10), saved, newest_s) {}
  std::optional<ClockLeap> see(int64_t steady_s, int64_t ahead_s = 0) {
    return clock.see((kNow + steady_s + ahead_s) * kSignedSecondNs, steady_s * kSignedSecondNs);
  }
  PruneClock clock;
};

TEST(PruneClock, IsDueOncePerPeriod) {
  Machine machine;
  EXPECT_FALSE(machine.clock.take());
  machine.see(0);
  machine.see(10 * kMinuteS - 1);
  EXPECT_FALSE(machine.clock.take());
  machine.see(10 * kMinuteS);
  EXPECT_THAT(machine.clock.take(), Optional((kNow + 10 * kMinuteS) * kSignedSecondNs));
  EXPECT_FALSE(machine.clock.take());
}

TEST(PruneClock, WaitsForAnHourAfterAJump) {
  for (const int64_t ahead_s : {2 * kMinuteS, -2 * kMinuteS}) {
    Machine machine;
    machine.see(0);
    EXPECT_FALSE(machine.see(60, ahead_s)) << "no leap";
    machine.see(59 * kMinuteS, ahead_s);
    EXPECT_FALSE(machine.clock.take());
    machine.see(62 * kMinuteS, ahead_s);
    EXPECT_TRUE(machine.clock.take());
  }
}

TEST(PruneClock, ADayIsNoLeapAndMoreIsOne) {
  Machine machine;
  machine.see(0);
  EXPECT_EQ(machine.see(5, kDayS), std::nullopt);
  EXPECT_EQ(machine.see(10, 2 * kDayS + 1), (ClockLeap{kNow + 5 + kDayS, kDayS + 1}));
  EXPECT_EQ(machine.see(20, 2 * kDayS + 1), std::nullopt) << "once";
}

TEST(PruneClock, ALongTimeInWhichLooksCameIsNoLeap) {
  Machine machine;
  machine.see(0);
  EXPECT_FALSE(machine.see(10 * kYearS));
}

TEST(PruneClock, ALeapOverARestartIsOne) {
  Machine before;
  before.see(0);
  Machine after(before.clock.save());
  EXPECT_THAT(after.see(50, kYearS), Optional(ClockLeap{kNow, kYearS + 50}));
  Machine again(after.clock.save());
  EXPECT_FALSE(again.see(70, kYearS)) << "told already";
  EXPECT_THAT(again.clock.leaps(), ElementsAre(ClockLeap{kNow, kYearS + 50}));
}

// A file of an earlier version: its newest chunk says when it was written.
TEST(PruneClock, WithoutWhatWasSavedTheNewestCounts) {
  EXPECT_TRUE(Machine("", kNow - kYearS).see(0));
  EXPECT_FALSE(Machine("", kNow - kDayS).see(0));
  EXPECT_FALSE(Machine("", kNow + kYearS).see(0));
  EXPECT_FALSE(Machine().see(0));
}

TEST(PruneClock, WhatIsNotAClocksIsAsIfNothingWas) {
  for (const char* text : {"x", "-5", "99999999999999999999", "17 x", "17 5", "17 5 -9"})
    EXPECT_THAT(Machine(text).clock.leaps(), IsEmpty()) << text;
}

TEST(PruneClock, ACorrectionTakesLeapsBack) {
  Machine machine;
  machine.see(0);
  machine.see(10, 3 * kDayS);
  machine.see(20, 10 * kYearS);
  EXPECT_THAT(machine.clock.leaps(), SizeIs(2));
  machine.see(30, 3 * kDayS);
  EXPECT_THAT(machine.clock.leaps(), ElementsAre(ClockLeap{kNow, 3 * kDayS}));
  machine.see(40, -kMinuteS);
  EXPECT_THAT(machine.clock.leaps(), IsEmpty());
}

// A clock without a battery begins in 1970 until it is set.
TEST(PruneClock, AClockThatBeganInThePastMakesNothingYounger) {
  Machine machine("1795305600");
  machine.see(0, -kNow);
  const auto leap = machine.see(30);
  ASSERT_TRUE(leap);
  EXPECT_LT(leap->after_s, kYearS) << "what was stored in 2026 is later than that";
}

TEST(PruneClock, OfManyLeapsTheLargestStay) {
  Machine machine;
  machine.see(0);
  machine.see(1, 10 * kYearS);
  for (int64_t i = 1; i < 100; ++i) machine.see(1 + i, 10 * kYearS + i * 2 * kDayS);
  ASSERT_THAT(machine.clock.leaps(), SizeIs(32));
  EXPECT_EQ(machine.clock.leaps()[0].by_s, 10 * kYearS);
}

}  // namespace
}  // namespace vram::history
