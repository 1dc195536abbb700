// What is too old goes from a history, by a clock that can be believed, and its room with it.
#include "base/time.hpp"
#include "history/database.hpp"
#include "history/history.hpp"
#include "history/prune_clock.hpp"
#include "history/testing/history_samples.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace vram::history {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kDayBegin;
using testing::kHour;
using testing::kMinute;
using testing::opened;
using ::testing::Optional;
using testing::points_of;
using testing::sample_at;
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

class PruneTest : public ::testing::Test {
 protected:
  PruneTest() {
    options_.keep = {std::chrono::hours(1), std::chrono::hours(2), std::chrono::hours(24),
                     std::chrono::hours(2)};
    options_.prune_period = std::chrono::minutes(1);
  }
  // A sample each 10 s.
  static void add(History& history, int64_t from_ns, int64_t to_ns) {
    for (int64_t time_ns = from_ns; time_ns < to_ns; time_ns += 10 * kSignedSecondNs)
      history.add(sample_at(time_ns, 5));
  }
  static HistoryQuery used() { return testing::used_by(kSignedSecondNs); }

  testing::Folder folder_;
  HistoryOptions options_;
  std::vector<std::string> messages_;
};

TEST_F(PruneTest, EachGrainIsKeptAsLongAsItShould) {
  History history = opened(folder_.file(), options_);
  add(history, kDayBegin, kDayBegin + 12 * kHour);
  ASSERT_TRUE(history.flush());
  ASSERT_TRUE(history.flush());
  auto database = Database::open(folder_.file(), true);
  ASSERT_TRUE(database) << database.error().message;
  const auto oldest_s = [&](int grain_s) {
    return database
        ->number(fmt::format("SELECT min(begin_s) FROM device_chunk WHERE grain_s={}", grain_s))
        .value();
  };
  // The last sample is at 11:59:50; a chunk goes when all of it is too old.
  const int64_t end_s = kDayBegin / kSignedSecondNs + 12 * 3600;
  EXPECT_EQ(oldest_s(0), end_s - 3600 - 60);
  EXPECT_EQ(oldest_s(60), end_s - 2 * 3600 - 900);
  EXPECT_EQ(oldest_s(3600), kDayBegin / kSignedSecondNs);
  EXPECT_EQ(history.facts().oldest_ns, kDayBegin);
}

TEST_F(PruneTest, TheFileShrinks) {
  constexpr int kSeconds = 80'000;
  {
    History history = opened(folder_.file());  // keeps all of it
    for (int64_t i = 0; i < kSeconds; ++i) {
      watch::Sampled sampled =
          sample_at(kDayBegin + i * kSignedSecondNs, static_cast<uint64_t>(i * 12'345 % 1000));
      sampled.snapshot.devices[0].unattributed_bytes = i * 7'777'777'777 % 1'000'000'007;
      history.add(sampled);
    }
  }
  const auto before = std::filesystem::file_size(folder_.file());
  {
    History history = opened(folder_.file(), options_);
    add(history, kDayBegin + kSeconds * kSignedSecondNs,
        kDayBegin + (kSeconds + 120) * kSignedSecondNs);
    ASSERT_TRUE(history.flush());
  }
  EXPECT_LT(std::filesystem::file_size(folder_.file()), before / 2);
}

TEST_F(PruneTest, AClockThatJumpsAheadThrowsNothingAwayForAnHour) {
  History history = opened(folder_.file(), options_);
  add(history, kDayBegin, kDayBegin + 10 * kMinute);
  watch::Sampled jumped = sample_at(kDayBegin + 1000 * kHour, 6);
  jumped.begin_ns = static_cast<uint64_t>(kDayBegin + 10 * kMinute);
  history.add(jumped);
  ASSERT_TRUE(history.flush());
  watch::Sampled back = sample_at(kDayBegin + 11 * kMinute, 7);
  history.add(back);
  ASSERT_TRUE(history.flush());
  HistoryQuery query = used();
  query.to_ns = kDayBegin + kHour;
  query.from_ns = kDayBegin;
  query.step_ns = kHour;
  const auto hours = points_of(history, query);
  ASSERT_EQ(hours.size(), 1u);
  EXPECT_EQ(hours[0].count, 61u);
  // And what lies far ahead does not make all else look old.
  query.step_ns = kSignedSecondNs;
  EXPECT_EQ(points_of(history, query).size(), 61u);
}

constexpr int64_t kTenYears = 87'660 * kHour;

// How many samples of the first ten minutes a history has still.
uint64_t first_samples(const History& history) {
  HistoryQuery query = testing::used_by(10 * kMinute);
  query.from_ns = kDayBegin;
  query.to_ns = kDayBegin + 10 * kMinute;
  const auto points = points_of(history, query);
  return points.empty() ? 0 : points[0].count;
}

class LeapTest : public PruneTest {
 protected:
  LeapTest() {
    options_.report = [this](const std::string& text) { messages_.push_back(text); };
  }
  // The machine's clock is so far ahead of the steady one.
  static void add_ahead(History& history, int64_t from_ns, int64_t to_ns, int64_t ahead_ns) {
    for (int64_t time_ns = from_ns; time_ns < to_ns; time_ns += 10 * kSignedSecondNs) {
      watch::Sampled sampled = sample_at(time_ns + ahead_ns, 6);
      sampled.begin_ns = static_cast<uint64_t>(time_ns);
      history.add(sampled);
    }
  }
  // Writes, and deletes what is due.
  static void prune(History& history) {
    ASSERT_TRUE(history.flush());
    ASSERT_TRUE(history.flush());
  }
};

TEST_F(LeapTest, AClockThatStaysYearsAheadDeletesNothingByThat) {
  History history = opened(folder_.file(), options_);
  add(history, kDayBegin, kDayBegin + 10 * kMinute);
  ASSERT_TRUE(history.flush());
  add_ahead(history, kDayBegin + 10 * kMinute, kDayBegin + 115 * kMinute, kTenYears);
  prune(history);
  EXPECT_EQ(first_samples(history), 60u);
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_THAT(messages_[0], HasSubstr("the clock is 87660 h 0 min ahead"));
}

TEST_F(LeapTest, NorWhereItIsAheadFromTheStartOn) {
  {
    History history = opened(folder_.file(), options_);
    add(history, kDayBegin, kDayBegin + 10 * kMinute);
  }
  for (int start = 0; start < 3; ++start) {  // more than once
    History history = opened(folder_.file(), options_);
    const int64_t begin = kDayBegin + (10 + 30 * start) * kMinute;
    add_ahead(history, begin, begin + 30 * kMinute, kTenYears);
    prune(history);
    EXPECT_EQ(first_samples(history), 60u);
  }
  EXPECT_EQ(messages_.size(), 1u) << "once for a leap";
}

TEST_F(LeapTest, WhatIsOlderThanALeapAgesWhileVramRuns) {
  History history = opened(folder_.file(), options_);
  add(history, kDayBegin, kDayBegin + 10 * kMinute);
  ASSERT_TRUE(history.flush());
  add_ahead(history, kDayBegin + 10 * kMinute, kDayBegin + 33 * kHour, kTenYears);
  prune(history);
  EXPECT_EQ(first_samples(history), 0u) << "a day and eight hours are over";
}

TEST_F(LeapTest, AClockThatIsCorrectedCountsAgain) {
  History history = opened(folder_.file(), options_);
  add(history, kDayBegin, kDayBegin + 10 * kMinute);
  add_ahead(history, kDayBegin + 10 * kMinute, kDayBegin + 20 * kMinute, kTenYears);
  ASSERT_TRUE(history.flush());
  add(history, kDayBegin + 20 * kMinute, kDayBegin + 33 * kHour);
  prune(history);
  EXPECT_EQ(first_samples(history), 0u);
}

TEST_F(PruneTest, AClockThatGoesBackCountsBothTimes) {
  History history = opened(folder_.file(), options_);
  add(history, kDayBegin, kDayBegin + 10 * kMinute);
  add(history, kDayBegin, kDayBegin + 10 * kMinute);
  ASSERT_TRUE(history.flush());
  for (const int64_t step_ns : {10 * kSignedSecondNs, kMinute, kHour}) {
    HistoryQuery query = used();
    query.step_ns = step_ns;
    uint64_t count = 0;
    for (const HistoryPoint& point : points_of(history, query)) count += point.count;
    EXPECT_EQ(count, 120u) << step_ns;
  }
}

}  // namespace

}  // namespace vram::history
