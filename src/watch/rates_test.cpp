// Rates of counters over two seconds and less, worked out by hand; counters that are reset.
#include "watch/rates.hpp"

#include "base/time.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace vram::watch {
namespace {

class RatesTest : public ::testing::Test {
 protected:
  struct Counted {
    std::optional<uint64_t> sent, received, busy_ns;
    std::optional<uint32_t> busy_percent = {};
  };
  DeviceReading at(uint64_t time_ns, const Counted& counted) {
    DeviceReading reading;
    reading.time_ns = time_ns;
    reading.identity.uuid = uuid_;
    reading.sample.pcie_sent_bytes = counted.sent;
    reading.sample.pcie_received_bytes = counted.received;
    gpu::DeviceProcess process;
    process.pid = pid_;
    process.busy_percent = counted.busy_percent;
    process.busy_ns = counted.busy_ns;
    process.gpu_instance = instance_;
    reading.sample.processes = {process};
    Readings readings{{reading}, {}};
    rates_.apply(readings);
    return readings.devices[0];
  }
  static std::optional<uint32_t> percent(const DeviceReading& reading) {
    return (*reading.sample.processes)[0].busy_percent;
  }
  Rates rates_;
  std::optional<std::string> uuid_ = "A";
  uint32_t pid_ = 7;
  std::optional<uint32_t> instance_;
};

TEST_F(RatesTest, TwoReadingsMakeARate) {
  const DeviceReading first = at(10 * kSecondNs, {1000, 5000, 300'000'000});
  EXPECT_EQ(first.sample.pcie_sent_bytes_per_second, std::nullopt);
  EXPECT_EQ(percent(first), std::nullopt);
  const DeviceReading second = at(12 * kSecondNs, {7000, 5000, 800'000'000});
  EXPECT_EQ(second.sample.pcie_sent_bytes_per_second, 3000U);
  EXPECT_EQ(second.sample.pcie_received_bytes_per_second, 0U);
  EXPECT_EQ(percent(second), 25U);
  const DeviceReading third = at(12 * kSecondNs + kSecondNs / 2, {7001, 6000, 1'300'000'000});
  EXPECT_EQ(third.sample.pcie_sent_bytes_per_second, 2U);
  EXPECT_EQ(third.sample.pcie_received_bytes_per_second, 2000U);
  EXPECT_EQ(percent(third), 100U);
}

TEST_F(RatesTest, ACounterThatBeginsAnewHasNone) {
  (void)at(1 * kSecondNs, {1000, 1000, 500});
  const DeviceReading reading = at(11 * kSecondNs, {10, 2000, 400});
  EXPECT_EQ(reading.sample.pcie_sent_bytes_per_second, std::nullopt);
  EXPECT_EQ(reading.sample.pcie_received_bytes_per_second, 100U);
  EXPECT_EQ(percent(reading), std::nullopt);
  EXPECT_EQ(at(12 * kSecondNs, {110, 2000, 400}).sample.pcie_sent_bytes_per_second, 100U);
}

TEST_F(RatesTest, WhatTheSourceKnowsStays) {
  (void)at(1 * kSecondNs, {{}, {}, 0});
  EXPECT_EQ(percent(at(2 * kSecondNs, {{}, {}, kSecondNs, 12})), 12U);
}

TEST_F(RatesTest, LinksHaveRatesToo) {
  const auto read = [&](uint64_t time_ns, uint64_t sent, std::optional<uint64_t> reported) {
    DeviceReading reading;
    reading.time_ns = time_ns;
    reading.identity.uuid = uuid_;
    reading.sample.nvlink_sent_bytes = sent;
    reading.sample.nvlink_received_bytes = 10;
    reading.sample.nvlink_received_bytes_per_second = reported;
    Readings readings{{reading}, {}};
    rates_.apply(readings);
    return readings.devices[0].sample;
  };
  EXPECT_EQ(read(1 * kSecondNs, 1000, {}).nvlink_sent_bytes_per_second, std::nullopt);
  const gpu::DeviceSample sample = read(3 * kSecondNs, 5000, 77);
  EXPECT_EQ(sample.nvlink_sent_bytes_per_second, 2000U);
  EXPECT_EQ(sample.nvlink_received_bytes_per_second, 77U);  // as the source says
}

TEST_F(RatesTest, MoreThanTheWholeTimeIsNoFigure) {
  (void)at(1 * kSecondNs, {{}, {}, 0});
  EXPECT_EQ(percent(at(2 * kSecondNs, {{}, {}, kSecondNs + kSecondNs / 20})), 100U);
  EXPECT_EQ(percent(at(3 * kSecondNs, {{}, {}, 3 * kSecondNs})), std::nullopt);
}

TEST_F(RatesTest, OthersCountersAreNotCompared) {
  (void)at(1 * kSecondNs, {100, 100, 100});
  pid_ = 8;
  EXPECT_EQ(percent(at(2 * kSecondNs, {100, 100, 200})), std::nullopt);
  instance_ = 3;
  EXPECT_EQ(percent(at(3 * kSecondNs, {100, 100, 300})), std::nullopt);
  uuid_ = "B";
  EXPECT_EQ(at(4 * kSecondNs, {200, 100, 300}).sample.pcie_sent_bytes_per_second, std::nullopt);
  uuid_ = std::nullopt;
  (void)at(5 * kSecondNs, {300, 100, 300});
  EXPECT_EQ(at(6 * kSecondNs, {400, 100, 300}).sample.pcie_sent_bytes_per_second, std::nullopt);
}

TEST_F(RatesTest, NoTimeBetweenReadingsHasNoRate) {
  (void)at(2 * kSecondNs, {100, 100, 100});
  EXPECT_EQ(at(2 * kSecondNs, {200, 200, 200}).sample.pcie_sent_bytes_per_second, std::nullopt);
  EXPECT_EQ(at(1 * kSecondNs, {300, 300, 300}).sample.pcie_sent_bytes_per_second, std::nullopt);
  EXPECT_EQ(at(1 * kSecondNs + 1, {UINT64_MAX, 301, 0}).sample.pcie_sent_bytes_per_second,
            std::nullopt);
}

using Xids = std::optional<std::vector<uint64_t>>;

Readings readings_of(const std::string& uuid, Xids xids) {
  Readings readings;
  DeviceReading& reading = readings.devices.emplace_back();
  if (!uuid.empty()) reading.identity.uuid = uuid;
  reading.new_xids = std::move(xids);
  return readings;
}

std::optional<std::vector<XidCount>> tally(XidTally& tally, const std::string& uuid,
                                           const Xids& xids, int64_t time_ns) {
  Readings readings = readings_of(uuid, xids);
  tally.apply(readings, time_ns);
  return readings.devices[0].xids;
}

TEST(XidTally, CountsByNumberWithTheLastTime) {
  XidTally counts;
  EXPECT_TRUE(tally(counts, "A", Xids(std::in_place), 1).value().empty());
  tally(counts, "A", {{79, 31}}, 2);
  const auto after = tally(counts, "A", {{31, 31}}, 5).value();
  ASSERT_EQ(after.size(), 2U);
  EXPECT_EQ(after[0].xid, 31U);
  EXPECT_EQ(after[0].count, 3U);
  EXPECT_EQ(after[0].last_time_ns, 5);
  EXPECT_EQ(after[1].xid, 79U);
  EXPECT_EQ(after[1].count, 1U);
  EXPECT_EQ(after[1].last_time_ns, 2);
}

TEST(XidTally, UnknownUntilSomebodyTellsAndRememberedWhenNobodyDoes) {
  XidTally counts;
  EXPECT_EQ(tally(counts, "A", std::nullopt, 1), std::nullopt);
  tally(counts, "A", {{48}}, 2);
  EXPECT_EQ(tally(counts, "A", std::nullopt, 3).value().at(0).count, 1U);
  EXPECT_EQ(tally(counts, "B", std::nullopt, 3), std::nullopt);
  EXPECT_EQ(tally(counts, "", {{48}}, 3), std::nullopt);  // its owner is unknown
}

TEST(XidTally, HasABound) {
  XidTally counts;
  for (uint64_t xid = 0; xid < 10 * kMaxXids; ++xid) tally(counts, "A", {{xid}}, 1);
  EXPECT_EQ(tally(counts, "A", {{0}}, 2).value().size(), kMaxXids);
  EXPECT_EQ(tally(counts, "A", {{0}}, 2).value().at(0).count, 3U);
}

}  // namespace
}  // namespace vram::watch
