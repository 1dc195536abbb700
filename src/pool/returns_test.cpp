// Blocks that several streams use, on a small simulated GPU.
#include "pool/returns.hpp"

#include "base/bytes.hpp"
#include "pool/pool.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace vram::pool {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class HeldBlocksTest : public testing::Test {
 protected:
  static constexpr BlockId kBlock{.index = 3, .serial = 1};
  static constexpr BlockId kOther{.index = 4, .serial = 2};
  static constexpr int64_t kWorkNs = 1'000'000;

  // A stream whose work is done after so many pieces of kWorkNs.
  StreamIndex busy(StreamHandle stream, int64_t pieces) {
    EXPECT_EQ(gpu_.enqueue(0, stream, pieces * kWorkNs), Status::kOk);
    return arena_.stream_index(stream);
  }
  std::vector<BlockId> settle() {
    std::vector<BlockId> released;
    held_.settle([&](BlockId block) { released.push_back(block); });
    return released;
  }

  gpu::SimGpu gpu_{device_of(64 * kMiB)};
  Device device_{gpu_, 0};
  Arena arena_;
  HeldBlocks held_{device_, arena_};
};

TEST_F(HeldBlocksTest, ABlockIsHeldUntilAllStreamsThatUsedItAreDone) {
  const StreamIndex first = busy(7, 1);
  const StreamIndex second = busy(8, 3);
  EXPECT_TRUE(held_.use(kBlock, first));
  EXPECT_FALSE(held_.use(kBlock, first)) << "known already";
  EXPECT_TRUE(held_.use(kBlock, second));
  EXPECT_TRUE(held_.use(kOther, first));
  EXPECT_FALSE(held_.is_held(kBlock)) << "it lives";
  held_.hold(kBlock);
  EXPECT_TRUE(held_.is_held(kBlock));
  EXPECT_FALSE(held_.is_held(kOther));
  EXPECT_THAT(settle(), IsEmpty());
  gpu_.advance(2 * kWorkNs);
  EXPECT_THAT(settle(), IsEmpty()) << "the second stream is still at work";
  gpu_.advance(2 * kWorkNs);
  EXPECT_THAT(settle(), ElementsAre(kBlock));
  EXPECT_TRUE(held_.empty());
}

TEST_F(HeldBlocksTest, WhatSomebodyElseHoldsWaitsForThat) {
  held_.hold_until_finish(kBlock);
  EXPECT_THAT(settle(), IsEmpty());
  EXPECT_TRUE(held_.is_held(kBlock));
  held_.finish(kOther);
  EXPECT_TRUE(held_.is_held(kBlock));
  held_.finish(kBlock);
  EXPECT_FALSE(held_.is_held(kBlock));
}

TEST_F(HeldBlocksTest, AStreamThatIsGoneUsesNothing) {
  const StreamIndex stream = busy(7, 1);
  EXPECT_TRUE(held_.use(kBlock, stream));
  held_.forget_stream(stream);
  held_.hold(kBlock);
  EXPECT_FALSE(held_.is_held(kBlock));
}

TEST_F(HeldBlocksTest, TakingAllLeavesNothingHeld) {
  const StreamIndex stream = busy(7, 1);
  EXPECT_TRUE(held_.use(kBlock, stream));
  held_.hold(kBlock);
  held_.hold_until_finish(kOther);
  EXPECT_THAT(held_.take_all(), ElementsAre(kBlock, kOther));
  EXPECT_TRUE(held_.empty());
}

constexpr StreamHandle kMain = 0;
constexpr StreamHandle kSide = 64;

class HeldTest : public PoolOnSimGpu<Pool> {
 protected:
  // Without growing: requests must be served from memory that was freed.
  void allow_no_more() { pool_.limit(pool_.stats().reserved_bytes.current); }
};

TEST_F(HeldTest, AFreedBlockWaitsForTheStreamsThatUseIt) {
  const Allocation block = pool_.allocate(8 * kMiB, kMain);
  pool_.record_stream(block.block, kSide);
  ASSERT_EQ(gpu_.enqueue(0, kSide, 5'000'000), Status::kOk);
  pool_.free(block.block);
  EXPECT_EQ(pool_.stats().allocated_bytes.current, 0u);
  EXPECT_EQ(pool_.stats().active_bytes.current, 8 * kMiB) << "the side stream is at work on it";
  const Allocation other = pool_.allocate(8 * kMiB, kMain);
  EXPECT_NE(other.address, block.address);
  gpu_.advance(10'000'000);
  allow_no_more();
  EXPECT_EQ(pool_.allocate(8 * kMiB, kMain).address, block.address);
  EXPECT_EQ(gpu_.stats()[gpu::Call::kSynchronize].count, 0u);
}

// A block of two parts, each of which is held.
TEST_F(HeldTest, AHeldBlockIsShownAsHeldInAllItsParts) {
  std::vector<Allocation> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool_.allocate(4 * kMiB, kMain));
  allow_no_more();
  pool_.free(blocks[0].block);
  pool_.free(blocks[2].block);
  const Allocation stitched = pool_.allocate(8 * kMiB, kMain);
  ASSERT_EQ(pool_.stats().stitches, 1u);
  const auto held_bytes = [this] {
    uint64_t bytes = 0;
    pool_.visit([&](const BlockInfo& info) { bytes += info.is_held ? info.size_bytes : 0; });
    return bytes;
  };
  pool_.record_stream(stitched.block, kSide);
  ASSERT_EQ(gpu_.enqueue(0, kSide, 5'000'000), Status::kOk);
  EXPECT_EQ(held_bytes(), 0u);
  pool_.free(stitched.block);
  EXPECT_EQ(held_bytes(), 8 * kMiB);
  EXPECT_EQ(pool_.wait(), Status::kOk);
  EXPECT_EQ(held_bytes(), 0u);
}

TEST_F(HeldTest, WorkThatIsQueuedAfterTheFreeIsNotWaitedFor) {
  const Allocation block = pool_.allocate(8 * kMiB, kMain);
  pool_.record_stream(block.block, kSide);
  ASSERT_EQ(gpu_.enqueue(0, kSide, 1'000'000), Status::kOk);
  pool_.free(block.block);
  ASSERT_EQ(gpu_.enqueue(0, kSide, 900'000'000), Status::kOk);
  gpu_.advance(2'000'000);
  allow_no_more();
  EXPECT_EQ(pool_.allocate(8 * kMiB, kMain).address, block.address);
  EXPECT_EQ(gpu_.stats()[gpu::Call::kSynchronize].count, 0u);
}

TEST_F(HeldTest, EveryStreamIsWaitedForAndItsOwnIsNone) {
  const Allocation block = pool_.allocate(8 * kMiB, kMain);
  pool_.record_stream(block.block, kMain);
  pool_.free(block.block);
  EXPECT_EQ(pool_.stats().active_bytes.current, 0u);

  const Allocation shared = pool_.allocate(8 * kMiB, kMain);
  pool_.record_stream(shared.block, kSide);
  pool_.record_stream(shared.block, kSide + 1);
  pool_.record_stream(shared.block, kSide);
  ASSERT_EQ(gpu_.enqueue(0, kSide, 1'000'000), Status::kOk);
  ASSERT_EQ(gpu_.enqueue(0, kSide + 1, 9'000'000), Status::kOk);
  pool_.free(shared.block);
  gpu_.advance(5'000'000);
  EXPECT_NE(pool_.allocate(8 * kMiB, kMain).address, shared.address);
  EXPECT_EQ(pool_.stats().active_bytes.current, 16 * kMiB);
  gpu_.advance(5'000'000);
  allow_no_more();
  EXPECT_EQ(pool_.allocate(8 * kMiB, kMain).address, shared.address);
}

// A thousand blocks wait for one stream: whether it is done is one question.
TEST_F(HeldTest, OneAnswerServesForAllBlocksOfAStream) {
  std::vector<Allocation> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(pool_.allocate(512, kMain));
  for (const Allocation& block : blocks) pool_.record_stream(block.block, kSide);
  ASSERT_EQ(gpu_.enqueue(0, kSide, 50'000'000), Status::kOk);
  for (const Allocation& block : blocks) pool_.free(block.block);
  const uint64_t queries = gpu_.stats()[gpu::Call::kQuery].count;
  (void)pool_.allocate(30 * kMiB, kMain);
  EXPECT_LE(gpu_.stats()[gpu::Call::kQuery].count - queries, 10u);
  EXPECT_EQ(pool_.stats().active_bytes.current, 30 * kMiB + 1000 * 512);
  gpu_.advance(100'000'000);
  (void)pool_.allocate(20 * kMiB, kMain);
  EXPECT_EQ(pool_.stats().active_bytes.current, 50 * kMiB);
}

TEST_F(HeldTest, MuchTrafficFindsOutWithoutPressure) {
  const Allocation block = pool_.allocate(8 * kMiB, kMain);
  pool_.record_stream(block.block, kSide);
  pool_.free(block.block);
  for (int i = 0; i < 200; ++i) pool_.free(pool_.allocate(512, kMain).block);
  EXPECT_EQ(pool_.stats().active_bytes.current, 0u);
}

TEST_F(HeldTest, AForgottenStreamIsNotAskedAnyMore) {
  const Allocation block = pool_.allocate(8 * kMiB, kSide);
  (void)pool_.allocate(512, kMain);
  ASSERT_EQ(gpu_.enqueue(0, kSide, 5'000'000), Status::kOk);
  pool_.free(block.block);
  pool_.forget(kSide);
  const uint64_t events = gpu_.stats()[gpu::Call::kRecord].count;
  allow_no_more();
  EXPECT_EQ(pool_.allocate(8 * kMiB, kMain).address, block.address);
  EXPECT_EQ(gpu_.stats()[gpu::Call::kRecord].count, events);
}

TEST_F(HeldTest, ABlockIsFoundByAnyAddressInIt) {
  const Allocation small = pool_.allocate(700, kMain);
  const Allocation large = pool_.allocate(8 * kMiB, kSide);
  BlockInfo info;
  EXPECT_EQ(pool_.block_at(small.address + 699, &info).serial, small.block.serial);
  EXPECT_EQ(info.address, small.address);
  EXPECT_EQ(info.size_bytes, 1024u);
  EXPECT_EQ(info.requested_bytes, 700u);
  EXPECT_EQ(pool_.block_at(large.address + 5 * kMiB, &info).serial, large.block.serial);
  EXPECT_EQ(info.stream, kSide);
  pool_.free(large.block);
  (void)pool_.block_at(large.address, &info);
  EXPECT_EQ(info.address, 0u);
}

}  // namespace

}  // namespace vram::pool
