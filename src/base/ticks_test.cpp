#include "base/ticks.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

namespace vram {
namespace {

using Pair = TickClock::Pair;
constexpr int64_t kUnixNs = 1'700'000'000'000'000'000;

TEST(TickClockTest, TimeIsWhatHasPassedAtTheCountersRate) {
  for (const double rate : {0.3, 1.0, 3.4}) {  // ticks per ns
    TickClock clock({.ticks = 1'000'000, .monotonic_ns = 5000}, kUnixNs);
    const auto at = [&](int64_t passed_ns) {
      return static_cast<uint64_t>(1'000'000 + std::llround(static_cast<double>(passed_ns) * rate));
    };
    for (int64_t passed = 20'000'000; passed < 2'000'000'000; passed += 20'000'000) {
      clock.note({.ticks = at(passed), .monotonic_ns = 5000 + passed});
      for (const int64_t before : {0, 17, 1'000'000, 19'000'000})
        EXPECT_NEAR(static_cast<double>(clock.unix_ns(at(passed - before)) - kUnixNs),
                    static_cast<double>(passed - before), 5);
    }
  }
}

TEST(TickClockTest, ClosePairsMakeNoRateOfTheirOwn) {
  TickClock clock({.ticks = 0, .monotonic_ns = 0}, kUnixNs);
  clock.note({.ticks = 60'000'000, .monotonic_ns = 20'000'000});
  // 40 ns apart, of which the reading of the clocks is half.
  clock.note({.ticks = 60'000'060, .monotonic_ns = 20'000'040});
  EXPECT_NEAR(static_cast<double>(clock.unix_ns(30'000'000) - kUnixNs), 10'000'000, 100);
}

TEST(TickClockTest, GoesOnAfterTheCounterHasBegunAgain) {
  TickClock clock({.ticks = 1'000'000'000, .monotonic_ns = 0}, kUnixNs);
  clock.note({.ticks = 1'060'000'000, .monotonic_ns = 20'000'000});
  clock.note({.ticks = 1000, .monotonic_ns = 40'000'000});
  EXPECT_EQ(clock.unix_ns(1000), kUnixNs + 40'000'000);
  EXPECT_NEAR(static_cast<double>(clock.unix_ns(31'000) - kUnixNs), 40'010'000, 10);
  clock.note({.ticks = 60'001'000, .monotonic_ns = 60'000'000});
  EXPECT_NEAR(static_cast<double>(clock.unix_ns(30'001'000) - kUnixNs), 50'000'000, 10);
}

TEST(TickClockTest, AgreesWithTheSystemsClock) {
  TickClock clock = TickClock::started_now();
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same each time
  for (int i = 0; i < 20; ++i) {
    const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(random() % 5'000'000)};
    (void)nanosleep(&pause, nullptr);
    const int64_t before = clock_ns(CLOCK_MONOTONIC);
    const uint64_t ticks = tick_count(has_tick_counter());
    const int64_t after = clock_ns(CLOCK_MONOTONIC);
    const Pair pair = Pair::now();
    clock.note(pair);
    const int64_t shift = clock.unix_ns(pair.ticks) - pair.monotonic_ns;
    EXPECT_GE(clock.unix_ns(ticks) - shift, before - 2000);
    EXPECT_LE(clock.unix_ns(ticks) - shift, after + 2000);
  }
}

}  // namespace
}  // namespace vram
