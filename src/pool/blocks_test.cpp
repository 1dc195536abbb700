#include "pool/blocks.hpp"

#include "base/bytes.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace vram::pool {
namespace {

class BlocksTest : public BlocksFixture {
 protected:
  // At that place, counted from the beginning of the arena.
  BlockId add(uint64_t offset_bytes, uint64_t bytes) {
    const Address address = kHome + offset_bytes;
    const NodeId node = arena_.carve(arena_.at(address), address, bytes).part;
    const Wanted wanted{.size_bytes = bytes, .requested_bytes = bytes - 1};
    return blocks_.add(node, address, wanted, kNoStitch).block;
  }
  void end(BlockId id) {
    blocks_.count_free(blocks_[id.index]);
    blocks_.end(blocks_[id.index]);
    arena_.put(id.index, kNoStream, 0);
  }
};

TEST_F(BlocksTest, ABlockIsFoundWhileItLives) {
  const BlockId first = add(0, kMiB);
  EXPECT_NE(blocks_.find(first), nullptr);
  end(first);
  EXPECT_EQ(blocks_.find(first), nullptr);
  const BlockId second = add(0, kMiB);
  ASSERT_EQ(second.index, first.index);
  EXPECT_EQ(blocks_.find(first), nullptr);
  EXPECT_EQ(blocks_.id_of(first.index), second);
}

TEST_F(BlocksTest, ABlockIsFoundByAnyOfItsAddressesUntilTheProgramFreesIt) {
  const BlockId id = add(kMiB, kMiB);
  EXPECT_EQ(blocks_.at(kHome + kMiB), id);
  EXPECT_EQ(blocks_.at(kHome + 2 * kMiB - 1), id);
  EXPECT_EQ(blocks_.at(kHome + kMiB - 1), BlockId{});
  EXPECT_EQ(blocks_.at(kHome + 2 * kMiB), BlockId{});
  blocks_[id.index].is_held = true;
  EXPECT_EQ(blocks_.at(kHome + kMiB), BlockId{});
}

TEST_F(BlocksTest, WhatTheProgramFreedIsActiveUntilTheBlockEnds) {
  const BlockId id = add(0, kMiB);
  EXPECT_EQ(stats_.requested_bytes.current, kMiB - 1);
  blocks_.count_free(blocks_[id.index]);
  EXPECT_EQ(stats_.allocation.current, 0u);
  EXPECT_EQ(stats_.allocated_bytes.current, 0u);
  EXPECT_EQ(stats_.active_bytes.current, kMiB);
  blocks_.end(blocks_[id.index]);
  EXPECT_EQ(stats_.active_bytes.current, 0u);
  EXPECT_EQ(stats_.requested_bytes.current, 0u);
}

TEST_F(BlocksTest, HoldersAreTheSizesOfBlocksThatTheProgramHas) {
  (void)add(0, kMiB);
  (void)add(kMiB, kMiB);
  const BlockId held = add(2 * kMiB, 4 * kMiB);
  blocks_[held.index].is_held = true;
  const Holders holders = blocks_.find_holders();
  EXPECT_EQ(holders[0].size_bytes, kMiB);
  EXPECT_EQ(holders[0].count, 2u);
  EXPECT_EQ(holders[1].count, 0u);
}

}  // namespace
}  // namespace vram::pool
