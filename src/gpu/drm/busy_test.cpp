// BusyTimes and EnergyMeter: counters that step back, appear and vanish.
#include "gpu/drm/card.hpp"
#include "gpu/drm/processes.hpp"

#include <gtest/gtest.h>

#include <random>

namespace vram::gpu::drm {
namespace {

constexpr BusyTimes::ProcessKey kProcess{0, 100, 7};

ClientFigures busy(uint64_t ns) {
  ClientFigures figures;
  figures.times = {{"gfx", ns}};
  return figures;
}

class BusyTest : public testing::Test {
 protected:
  void begin_tick() {
    times_.begin_tick([](const auto&) { return true; });
  }
  BusyTimes times_;
};

TEST_F(BusyTest, NeverStepsBack) {
  times_.add(kProcess, 1, busy(100));
  times_.add(kProcess, 2, busy(50));
  EXPECT_EQ(times_.busy_ns(kProcess), 150u);
  begin_tick();
  times_.add(kProcess, 1, busy(90));  // client 2 is closed
  EXPECT_EQ(times_.busy_ns(kProcess), 150u);
  begin_tick();
  times_.add(kProcess, 1, busy(110));  // ten more than it ever said
  times_.add(kProcess, 3, busy(5));
  EXPECT_EQ(times_.busy_ns(kProcess), 165u);
}

// Compute all the time, and copies in parallel: a second has no 1.4 seconds of busy time.
TEST_F(BusyTest, TheBusiestEngineOfEachTickCounts) {
  constexpr uint64_t kMs = 1'000'000;
  ClientFigures figures;
  for (uint64_t second = 1; second <= 10; ++second) {
    begin_tick();
    figures.times = {{"compute", 1000 * kMs * second}, {"dma", 400 * kMs * second}};
    times_.add(kProcess, 1, figures);
    EXPECT_EQ(times_.busy_ns(kProcess), 1000 * kMs * second);
  }
  begin_tick();  // the other one is the busiest now, and far behind
  figures.times[1].busy_ns += 300 * kMs;
  times_.add(kProcess, 1, figures);
  EXPECT_EQ(times_.busy_ns(kProcess), 10'300 * kMs);
}

TEST_F(BusyTest, AnEngineIsOfAllClientsTogether) {
  ClientFigures figures;
  for (const uint64_t tick : {0, 1}) {
    begin_tick();
    figures.times = {{"gfx", tick * 30}, {"dma", tick * 50}};
    figures.cycles = {{"ccs", tick * 60, tick * 100, 1}};
    times_.add(kProcess, 1, figures);
    figures.times = {{"gfx", tick * 40}};
    figures.cycles = {{"bcs", tick * 50, tick * 100, 1}};
    times_.add(kProcess, 2, figures);
  }
  EXPECT_EQ(times_.busy_ns(kProcess), 70u);
  EXPECT_EQ(times_.busy_percent(kProcess), 60u);
}

TEST_F(BusyTest, GrowsOnlyWhateverTheCountersSay) {
  std::mt19937_64 random(6);
  uint64_t before = 0;
  for (int tick = 0; tick < 5000; ++tick) {
    begin_tick();
    for (uint64_t client = 0; client < 3; ++client) {
      if (random() % 4 != 0) times_.add(kProcess, client + random() % 2000, busy(random()));
    }
    const uint64_t now = times_.busy_ns(kProcess).value_or(0);
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST_F(BusyTest, AProcessThatIsGoneIsForgotten) {
  times_.add(kProcess, 1, busy(100));
  times_.begin_tick([](const auto&) { return false; });
  EXPECT_EQ(times_.busy_ns(kProcess), std::nullopt);
}

TEST_F(BusyTest, PercentIsOfTheBusiestEngineBetweenTwoTicks) {
  ClientFigures figures;
  figures.cycles = {{"rcs", 1000, 10'000, 1}, {"ccs", 0, 10'000, 2}};
  times_.add(kProcess, 1, figures);
  EXPECT_EQ(times_.busy_percent(kProcess), std::nullopt);
  begin_tick();
  figures.cycles = {{"rcs", 1100, 11'000, 1}, {"ccs", 600, 11'000, 2}};  // 10 % and 30 %
  times_.add(kProcess, 1, figures);
  EXPECT_EQ(times_.busy_percent(kProcess), 30u);
  begin_tick();
  figures.cycles = {{"rcs", 900, 12'000, 1}, {"ccs", 600, 11'000, 2}};  // back, and no time
  times_.add(kProcess, 1, figures);
  EXPECT_EQ(times_.busy_percent(kProcess), std::nullopt);
}

TEST(EnergyMeterTest, PowerIsEnergyOverTime) {
  EnergyMeter meter;
  EXPECT_EQ(meter.milliwatts(5'000'000, 1'000'000'000), std::nullopt);
  // 30 J in 2 s
  EXPECT_EQ(meter.milliwatts(35'000'000, 3'000'000'000), 15'000u);
  EXPECT_EQ(meter.milliwatts(34'000'000, 4'000'000'000), std::nullopt);  // the counter was reset
  EXPECT_EQ(meter.milliwatts(std::nullopt, 5'000'000'000), std::nullopt);
  EXPECT_EQ(meter.milliwatts(36'000'000, 6'000'000'000), std::nullopt);
}

}  // namespace
}  // namespace vram::gpu::drm
