#include "pool/arena.hpp"

#include "base/bytes.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace vram::pool {
namespace {

constexpr Address kBase = uint64_t{1} << 40;

class ArenaTest : public testing::Test {
 protected:
  void SetUp() override {
    a_ = arena_.stream_index(1);
    b_ = arena_.stream_index(2);
    arena_.add(kBase, 64 * kMiB, Lane::kLarge);
  }
  void TearDown() override { EXPECT_EQ(arena_.validate(), ""); }
  NodeId take(uint64_t bytes, StreamIndex stream) {
    const NodeId node = arena_.best_fit(Lane::kLarge, stream, bytes);
    return arena_.carve(node, arena_[node].address, bytes).part;
  }

  Arena arena_;
  StreamIndex a_ = 0;
  StreamIndex b_ = 0;
};

TEST_F(ArenaTest, TheSmallestThatSufficesAndTheLowestOfEquals) {
  std::vector<NodeId> nodes;
  for (const uint64_t mib : {3, 1, 2, 1, 2, 1, 3, 1}) nodes.push_back(take(mib * kMiB, a_));
  for (const size_t i : {0, 2, 4, 6}) arena_.put(nodes[i], a_, 1);
  EXPECT_EQ(arena_.best_fit(Lane::kLarge, a_, kMiB + 512), nodes[2]);
  EXPECT_EQ(arena_.best_fit(Lane::kLarge, a_, 2 * kMiB + 512), nodes[0]);
  EXPECT_EQ(arena_.best_fit(Lane::kSmall, a_, kMiB), kNoNode);
  for (const size_t i : {1, 3, 5, 7}) arena_.put(nodes[i], a_, 1);
}

TEST_F(ArenaTest, WhatOneStreamFreedIsNotTheOthersUntilItIsSettled) {
  const NodeId one = take(64 * kMiB, a_);
  arena_.put(one, a_, 7);
  EXPECT_EQ(arena_.best_fit(Lane::kLarge, b_, kMiB), kNoNode);
  EXPECT_EQ(arena_.find_free(kBase, kMiB, b_), kNoNode);
  EXPECT_EQ(arena_.best_fit(Lane::kLarge, a_, kMiB), one);
  EXPECT_EQ(arena_.best_fit_of_all(Lane::kLarge, kMiB), one);
  arena_.settle(one);
  EXPECT_EQ(arena_.best_fit(Lane::kLarge, b_, kMiB), one);
}

TEST_F(ArenaTest, NeighboursOfTwoStreamsJoinWhenOneIsSettled) {
  const NodeId one = take(8 * kMiB, a_);
  const NodeId two = take(8 * kMiB, b_);
  const NodeId rest = take(48 * kMiB, b_);
  arena_.put(one, a_, 1);
  arena_.put(two, b_, 2);
  EXPECT_EQ(arena_.best_fit_of_all(Lane::kLarge, 9 * kMiB), kNoNode);
  const NodeId joined = arena_.settle(one);
  EXPECT_EQ(arena_[joined].size_bytes, 16 * kMiB);
  EXPECT_EQ(arena_[joined].stream, b_) << "it has something to wait for";
  EXPECT_EQ(arena_[joined].stamp, 2u);
  arena_.put(rest, b_, 3);
}

TEST_F(ArenaTest, CarvingFromTheMiddleLeavesBothSides) {
  const NodeId all = arena_.best_fit(Lane::kLarge, a_, kMiB);
  const Arena::Carved carved = arena_.carve(all, kBase + 10 * kMiB, 4 * kMiB);
  EXPECT_EQ(arena_[all].size_bytes, 10 * kMiB);
  EXPECT_EQ(arena_[carved.part].address, kBase + 10 * kMiB);
  EXPECT_EQ(arena_[carved.rest].size_bytes, 50 * kMiB);
  EXPECT_EQ(arena_.free_bytes(), 60 * kMiB);
  EXPECT_EQ(arena_.put(carved.part, a_, 1), all);
  EXPECT_EQ(arena_[all].size_bytes, 64 * kMiB);
}

TEST_F(ArenaTest, MemoryThatLeavesSeparatesItsNeighbours) {
  const NodeId first = take(16 * kMiB, a_);
  const NodeId gone = take(16 * kMiB, a_);
  arena_.remove(gone);
  arena_.put(first, a_, 1);
  EXPECT_EQ(arena_.best_fit(Lane::kLarge, a_, 33 * kMiB), kNoNode);
  EXPECT_EQ(arena_.find_free(kBase + 15 * kMiB, 2 * kMiB, a_), kNoNode);
  const NodeId again = arena_.add(kBase + 16 * kMiB, 16 * kMiB, Lane::kLarge);
  EXPECT_EQ(arena_[again].size_bytes, 64 * kMiB);
}

// find_free against a walk over all nodes, for addresses anywhere.
TEST_F(ArenaTest, FindFreeFindsWhatAWalkFinds) {
  std::mt19937_64 random(1);
  std::vector<NodeId> live;
  for (int i = 0; i < 3000; ++i) {
    const uint64_t bytes = (1 + random() % 6000) * 512;
    if (random() % 2 == 0 && arena_.best_fit(Lane::kLarge, a_, bytes) != kNoNode) {
      live.push_back(take(bytes, a_));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      arena_.put(live.back(), a_, 1);
      live.pop_back();
    }
    const Address at = kBase + random() % (64 * kMiB / 512) * 512;
    NodeId expected = kNoNode;
    for (NodeId id = 0; id < arena_.nodes().size(); ++id) {
      const Node& node = arena_[id];
      const bool holds = node.address <= at && at + bytes <= node.address + node.size_bytes;
      if (node.state == NodeState::kFree && holds) expected = id;
    }
    ASSERT_EQ(arena_.find_free(at, bytes, a_), expected);
  }
}

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
