#include "watch/xid_tally.hpp"

#include <gtest/gtest.h>

namespace vram::watch {
namespace {

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
  EXPECT_EQ(tally(counts, "", {{48}}, 3), std::nullopt);  // nobody knows whose it is
}

TEST(XidTally, HasABound) {
  XidTally counts;
  for (uint64_t xid = 0; xid < 10 * kMaxXids; ++xid) tally(counts, "A", {{xid}}, 1);
  EXPECT_EQ(tally(counts, "A", {{0}}, 2).value().size(), kMaxXids);
  EXPECT_EQ(tally(counts, "A", {{0}}, 2).value().at(0).count, 3U);
}

}  // namespace
}  // namespace vram::watch
