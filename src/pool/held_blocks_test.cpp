#include "pool/held_blocks.hpp"

#include "base/bytes.hpp"
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

}  // namespace
}  // namespace vram::pool
