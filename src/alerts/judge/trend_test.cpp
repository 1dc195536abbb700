#include "alerts/judge/trend.hpp"

#include "alerts/rules/rule.hpp"
#include "base/bytes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace vram::alerts {
namespace {

using Memory = std::function<double(double minute)>;  // GiB

// How many of the samples, one each ten seconds, find growth without end, from a minute on.
int found_in(const Memory& memory, double minutes, double from = 0) {
  Trend trend(kHourNs, kGiB / 4);
  int found = 0;
  for (uint64_t tick = 0; static_cast<double>(tick) / 6 < minutes; ++tick) {
    const double minute = static_cast<double>(tick) / 6;
    trend.add(tick * 10 * kSecondNs, static_cast<uint64_t>(memory(minute) * kGiB));
    if (minute >= from && trend.growth_per_second().value_or(0) > 0) ++found;
  }
  return found;
}

Memory saw(double period) {
  return [=](double minute) { return 10 + 30 * std::fmod(minute, period) / period; };
}

TEST(Trend, TooLittleSeenIsUnknown) {
  Trend trend(kHourNs, kGiB);
  for (uint64_t second = 0; second < 29 * 60; ++second)
    trend.add(second * kSecondNs, second * kGiB);
  EXPECT_FALSE(trend.growth_per_second());
}

TEST(Trend, ALeakUnderTrainingIsMeasured) {
  // A GiB a minute below what goes up and down by twenty within each half minute.
  Trend trend(kHourNs, kGiB);
  for (uint64_t second = 0; second <= 3'600; second += 5) {
    const uint64_t swing = second % 30 < 15 ? 20 * kGiB : 0;
    trend.add(second * kSecondNs, 10 * kGiB + second * kGiB / 60 + swing);
  }
  ASSERT_TRUE(trend.growth_per_second());
  EXPECT_NEAR(*trend.growth_per_second() * 60 / kGiB, 1, 0.01);
}

TEST(Trend, OneOddMinuteChangesLittle) {
  Trend trend(kHourNs, kGiB);
  for (uint64_t minute = 0; minute <= 60; ++minute)
    trend.add(minute * kMinuteNs, minute == 20 ? kGiB * 50 : kGiB * (10 + minute));
  // The odd minute is a fall of 29 GiB in a growth of 60: it might be a saw.
  EXPECT_EQ(trend.growth_per_second(), 0);
  Trend lower(kHourNs, kGiB);
  for (uint64_t minute = 0; minute <= 60; ++minute)
    lower.add(minute * kMinuteNs, kGiB * (10 + minute - (minute == 20 ? 9 : 0)));
  EXPECT_NEAR(*lower.growth_per_second() * 60 / kGiB, 1, 0.01);
}

TEST(Trend, MemoryThatComesBackIsNoLeak) {
  for (const double period : {2.0, 10.0, 25.0})
    EXPECT_EQ(found_in(saw(period), 600), 0) << period << " minutes";
}

TEST(Trend, ALongSawIsKnownFromItsSecondToothOn) {
  for (const double period : {45.0, 70.0, 120.0, 230.0})
    EXPECT_EQ(found_in(saw(period), 1'400, period + 5), 0) << period << " minutes";
}

TEST(Trend, LoadingAModelIsNoLeak) {
  for (const double loads : {5.0, 15.0, 20.0})
    EXPECT_EQ(found_in([=](double minute) { return 1 + 2 * std::min(minute, loads); }, 600), 0)
        << loads << " minutes";
}

// With a minute's part the window is an hour.
double limit_of(const Memory& memory) {
  Trend trend(kHourNs, kGiB / 4);
  for (uint64_t minute = 0; minute <= 60; ++minute)
    trend.add(minute * kMinuteNs,
              static_cast<uint64_t>(memory(static_cast<double>(minute)) * kGiB));
  EXPECT_GT(trend.growth_per_second().value_or(0), 0);
  return trend.limit_bytes() / kGiB;
}

TEST(Trend, GrowthThatSlowsDownHasALimit) {
  // 10 GiB in the end, of which 10 e^(-50/30) are to come from the middle of the last third on.
  EXPECT_NEAR(limit_of([](double minute) { return 10 * (1 - std::exp(-minute / 30)); }), 1.9, 0.15);
  EXPECT_LT(limit_of([](double minute) { return std::log2(1 + minute); }), 1.5);
  EXPECT_EQ(limit_of([](double minute) { return minute / 8; }),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(limit_of([](double minute) { return minute * minute / 200; }),
            std::numeric_limits<double>::infinity());
}

TEST(Trend, SteadyAndFallingMemoryIsNoLeak) {
  EXPECT_EQ(found_in([](double) { return 40; }, 300), 0);
  EXPECT_EQ(found_in([](double minute) { return 90 - minute / 10; }, 300), 0);
}

TEST(Trend, ALeakInStepsIsFound) {
  EXPECT_GT(found_in([](double minute) { return 10 + std::floor(minute / 8); }, 300, 60), 600);
}

TEST(Trend, ALeakThatEndsIsForgotten) {
  EXPECT_EQ(found_in([](double minute) { return 10 + std::min(minute, 120.0) / 4; }, 400, 155), 0);
}

}  // namespace
}  // namespace vram::alerts
