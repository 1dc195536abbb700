#include "pool/supply.hpp"

#include "base/bytes.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace vram::pool {
namespace {

class SupplyTest : public testing::Test {
 protected:
  SupplyTest() { EXPECT_TRUE(supply_.reserve()); }
  ~SupplyTest() override {
    EXPECT_EQ(arena_.validate(), "");
    EXPECT_EQ(stock_.validate(), "");
  }
  Wanted wanted(uint64_t bytes) {
    return {.size_bytes = bytes, .requested_bytes = bytes, .stream = arena_.stream_index(7)};
  }

  gpu::SimGpu gpu_{device_of(64 * kMiB)};
  Device device_{gpu_, 0};
  Options options_{.handle_bytes = kSmallHandleBytes};
  Stats stats_;
  Stock stock_{gpu_, 0, Backing::kVirtual};
  Stitches stitches_{device_, stock_};
  Arena arena_;
  Leases leases_{arena_};
  Supply supply_{device_, options_, stock_, stitches_, arena_, leases_, stats_};
};

TEST_F(SupplyTest, GrowsAsFarAsTheLimitLeavesRoom) {
  supply_.limit(8 * kMiB);
  EXPECT_TRUE(supply_.grow(6 * kMiB, wanted(6 * kMiB)));
  EXPECT_EQ(arena_.largest_free_bytes(), 6 * kMiB);
  EXPECT_FALSE(supply_.grow(4 * kMiB, wanted(4 * kMiB)));
  EXPECT_TRUE(supply_.is_nearly_full());
  EXPECT_EQ(stats_.reserved_bytes.current, 6 * kMiB);
  supply_.limit(16 * kMiB);
  EXPECT_TRUE(supply_.grow(4 * kMiB, wanted(4 * kMiB)));
  EXPECT_EQ(arena_.largest_free_bytes(), 10 * kMiB);
}

TEST_F(SupplyTest, GivesBackTheHandlesThatAreFreeAsAWhole) {
  ASSERT_TRUE(supply_.grow(8 * kMiB, wanted(8 * kMiB)));
  const Address home = stock_[0].home;
  const NodeId live = arena_.carve(arena_.at(home), home, kMiB).part;
  EXPECT_EQ(supply_.trim(UINT64_MAX), 8 * kMiB - stock_[0].bytes);
  EXPECT_EQ(stats_.reserved_bytes.current, stock_[0].bytes);
  arena_.put(live, kNoStream, 0);
  EXPECT_GT(supply_.trim(UINT64_MAX), 0u);
  EXPECT_EQ(gpu_.used_bytes(0), 0u);
}

TEST_F(SupplyTest, WhatIsLentIsAsGoodAsLive) {
  ASSERT_TRUE(supply_.grow(8 * kMiB, wanted(8 * kMiB)));
  const uint64_t before = supply_.allowance_bytes(wanted(kMiB));
  Lease lease;
  ASSERT_TRUE(leases_.lend(4 * kMiB, 4 * kMiB, arena_.stream_index(7), &lease));
  EXPECT_GE(supply_.allowance_bytes(wanted(kMiB)), before + 4 * kMiB);
  arena_.put(leases_.take_back(&lease, 4 * kMiB), kNoStream, 0);
}

// Memory at the end of the homes is continued by what comes next.
TEST_F(SupplyTest, ATailIsWhatNewMemoryContinues) {
  ASSERT_TRUE(supply_.grow(4 * kMiB, wanted(4 * kMiB)));
  EXPECT_EQ(supply_.tail_bytes(wanted(6 * kMiB)), 4 * kMiB);
  EXPECT_EQ(supply_.tail_bytes(wanted(3 * kMiB)), 3 * kMiB);
  const Address home = stock_[0].home;
  const NodeId live = arena_.carve(arena_.at(home), home + 3 * kMiB, kMiB).part;
  EXPECT_EQ(supply_.tail_bytes(wanted(6 * kMiB)), 0u);
  arena_.put(live, kNoStream, 0);
}

}  // namespace
}  // namespace vram::pool
