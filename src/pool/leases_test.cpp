#include "pool/leases.hpp"

#include "base/bytes.hpp"

#include <gtest/gtest.h>

namespace vram::pool {
namespace {

class LeasesTest : public testing::Test {
 protected:
  static constexpr Address kHome = 64 * kMiB;

  Arena arena_;
  StreamIndex stream_ = arena_.stream_index(7);
  Leases leases_{arena_};
  Lease lease_;
};

TEST_F(LeasesTest, LendsHalfAsMuchUntilThereIsAPiece) {
  arena_.add(kHome, 3 * kMiB, Lane::kLarge);
  EXPECT_FALSE(leases_.lend(4 * kMiB, 16 * kMiB, stream_, &lease_));
  EXPECT_EQ(leases_.bytes(), 0u);
  ASSERT_TRUE(leases_.lend(2 * kMiB, 16 * kMiB, stream_, &lease_));
  EXPECT_EQ(lease_.address, kHome);
  EXPECT_EQ(lease_.bytes, 2 * kMiB);
  EXPECT_EQ(leases_.bytes(), 2 * kMiB);
  EXPECT_EQ(arena_.free_bytes(), kMiB);
}

TEST_F(LeasesTest, ALeaseComesBackPieceByPieceFromItsBeginning) {
  arena_.add(kHome, 2 * kMiB, Lane::kLarge);
  ASSERT_TRUE(leases_.lend(2 * kMiB, 2 * kMiB, stream_, &lease_));
  const NodeId first = leases_.take_back(&lease_, 512 * kKiB);
  EXPECT_EQ(arena_[first].address, kHome);
  EXPECT_EQ(arena_[first].size_bytes, 512 * kKiB);
  EXPECT_EQ(lease_.address, kHome + 512 * kKiB);
  EXPECT_EQ(leases_.bytes(), 1536 * kKiB);
  const NodeId rest = leases_.take_back(&lease_, lease_.bytes);
  EXPECT_EQ(leases_.bytes(), 0u);
  arena_.put(rest, stream_, 0);
  arena_.put(first, stream_, 0);
  EXPECT_EQ(arena_.largest_free_bytes(), 2 * kMiB);
  EXPECT_EQ(arena_.validate(), "");
}

TEST_F(LeasesTest, OnlyWholeLeasesOfSmallBlocksLieAmongLargeOnes) {
  arena_.add(kHome, 256 * kKiB, Lane::kLarge);
  EXPECT_FALSE(leases_.lend(kKiB, 512 * kKiB, stream_, &lease_));
  ASSERT_TRUE(leases_.lend(kKiB, 256 * kKiB, stream_, &lease_));
  EXPECT_EQ(lease_.lane, Lane::kSmall);
}

}  // namespace
}  // namespace vram::pool
