// Stock, survey, plans and stitches on the simulated GPU: four handles of 4 MiB, in which blocks
// leave free ends.
#include "pool/stitches.hpp"

#include "base/bytes.hpp"
#include "gpu/sim/sim_gpu.hpp"
#include "pool/device.hpp"
#include "pool/stitch_plan.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace vram::pool {
namespace {

class StitchesTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(stock_.reserve(Stock::kSides * kGiB), Status::kOk);
    ASSERT_EQ(stitches_.reserve(kGiB), Status::kOk);
    stream_ = arena_.stream_index(1);
    for (int i = 0; i < 4; ++i) {
      HandleId id = kNoHandle;
      ASSERT_EQ(stock_.create(4 * kMiB, 0, &id), Status::kOk);
      arena_.add(stock_[id].home, 4 * kMiB, Lane::kLarge);
    }
    home_ = stock_[0].home;
  }
  // A live block at that place, counted from the first home.
  NodeId block(uint64_t offset_mib, uint64_t mib) {
    const NodeId node = arena_.find_free(home_ + offset_mib * kMiB, mib * kMiB, stream_);
    return arena_.carve(node, home_ + offset_mib * kMiB, mib * kMiB).part;
  }
  Survey survey() { return {arena_, stock_, std::array{stream_, kNoStream}}; }
  std::vector<std::pair<HandleId, uint64_t>> pieces(const std::optional<StitchPlan>& plan) {
    std::vector<std::pair<HandleId, uint64_t>> all;
    if (!plan) return all;
    for (const FreePiece& piece : plan->pieces) all.emplace_back(piece.handle, piece.bytes / kMiB);
    return all;
  }
  using Pieces = std::vector<std::pair<HandleId, uint64_t>>;

  gpu::SimGpu gpu_;
  Device device_{gpu_, 0};
  Stock stock_{gpu_, 0, Backing::kVirtual};
  Stitches stitches_{device_, stock_};
  Arena arena_;
  StreamIndex stream_ = kNoStream;
  Address home_ = 0;
};

// |11..|....|....|..11|: the tail of the first, the head of the last, and two whole ones.
TEST_F(StitchesTest, ATailWholeHandlesAndAHead) {
  block(0, 2);
  block(14, 2);
  EXPECT_EQ(survey().missing_bytes(12 * kMiB), 0u);
  EXPECT_EQ(survey().missing_bytes(13 * kMiB), kMiB);
  EXPECT_EQ(pieces(plan_stitch(survey(), 11 * kMiB)), (Pieces{{0, 2}, {1, 4}, {2, 4}, {3, 1}}));
  EXPECT_EQ(pieces(plan_stitch(survey(), 4 * kMiB)), (Pieces{{0, 2}, {3, 2}}));
  EXPECT_EQ(plan_stitch(survey(), 4 * kMiB).value().offset_bytes, 2 * kMiB);
  EXPECT_FALSE(plan_stitch(survey(), 13 * kMiB));
}

// |.1.1|1111|1111|1111|: only the head of the first. |.11.|: head and tail of one handle.
TEST_F(StitchesTest, NoHandleIsSeenTwiceInAStitch) {
  block(1, 2);
  block(4, 12);
  EXPECT_EQ(survey().missing_bytes(2 * kMiB), kMiB);
  EXPECT_FALSE(plan_stitch(survey(), 2 * kMiB));
}

TEST_F(StitchesTest, TheMiddleOfAHandleJoinsNothing) {
  block(0, 1);
  block(3, 13);
  EXPECT_EQ(survey().missing_bytes(kMiB), kMiB);
}

TEST_F(StitchesTest, AnIdleStitchServesAgainWithoutTheDriver) {
  StitchId id = kNoStitch;
  ASSERT_EQ(stitches_.add({2, 0, 3}, &id), Status::kOk);
  block(0, 1);  // of handle 0, the second in the stitch
  const auto plan = plan_reuse(survey(), stitches_, 3 * kMiB, 0);
  EXPECT_EQ(pieces(plan), (Pieces{{2, 3}}));
  EXPECT_FALSE(plan_reuse(survey(), stitches_, 8 * kMiB, 0));
  const auto later = plan_reuse(survey(), stitches_, 7 * kMiB, 0);
  EXPECT_EQ(pieces(later), (Pieces{{0, 3}, {3, 4}}));
  EXPECT_EQ(later.value().offset_bytes, 5 * kMiB);
  EXPECT_EQ(stitches_.validate(), "");
}

TEST_F(StitchesTest, AHandleInUseIsExchangedForAFreeOne) {
  StitchId id = kNoStitch;
  ASSERT_EQ(stitches_.add({0, 1, 2}, &id), Status::kOk);
  block(4, 4);  // all of handle 1
  EXPECT_FALSE(plan_reuse(survey(), stitches_, 12 * kMiB, 0));
  const auto plan = plan_reuse(survey(), stitches_, 12 * kMiB, 50);
  EXPECT_EQ(pieces(plan), (Pieces{{0, 4}, {3, 4}, {2, 4}}));
  const uint64_t maps = gpu_.stats()[gpu::Call::kMap].count;
  ASSERT_EQ(stitches_.patch(id, plan.value().patches), Status::kOk);
  EXPECT_EQ(gpu_.stats()[gpu::Call::kMap].count, maps + 1);
  EXPECT_EQ(stitches_[id].handles, (std::vector<HandleId>{0, 3, 2}));
}

TEST_F(StitchesTest, NothingIsUnmappedBeforeTheLastBlocksWorkIsDone) {
  StitchId id = kNoStitch;
  ASSERT_EQ(stitches_.add({0, 1}, &id), Status::kOk);
  stitches_.use(id, {0}, 0, {});
  ASSERT_EQ(gpu_.enqueue(0, 5, 1'000'000), Status::kOk);
  stitches_.unuse(id, 5, device_.stamp(5));
  EXPECT_EQ(stitches_.patch(id, {{0, 2}}), Status::kNotReady);
  EXPECT_FALSE(stitches_.drop_all_of(0));
  stitches_.drop_until(0);
  EXPECT_EQ(stitches_.mapped_bytes(), 8 * kMiB);
  gpu_.advance(1'000'000);
  EXPECT_EQ(stitches_.patch(id, {{0, 2}}), Status::kOk);
  stitches_.drop_until(0);
  EXPECT_EQ(stitches_.mapped_bytes(), 0u);
  EXPECT_EQ(stitches_.validate(), "");
}

// Windows of one stitch serve blocks of different streams: the last user's being done says nothing
// of the others.
TEST_F(StitchesTest, NothingIsUnmappedWhileAnEarlierStreamStillWorks) {
  StitchId id = kNoStitch;
  ASSERT_EQ(stitches_.add({0, 1}, &id), Status::kOk);
  stitches_.use(id, {0}, 0, {});
  ASSERT_EQ(gpu_.enqueue(0, 5, 1'000'000), Status::kOk);
  stitches_.unuse(id, 5, device_.stamp(5));
  stitches_.use(id, {1}, 4 * kMiB, {});
  stitches_.unuse(id, 6, device_.stamp(6));  // which is idle
  EXPECT_EQ(stitches_.patch(id, {{0, 2}}), Status::kNotReady);
  EXPECT_FALSE(stitches_.drop_all_of(0));
  stitches_.drop_until(0);
  EXPECT_EQ(stitches_.mapped_bytes(), 8 * kMiB);
  gpu_.advance(1'000'000);
  EXPECT_EQ(stitches_.patch(id, {{0, 2}}), Status::kOk);
  stitches_.drop_until(0);
  EXPECT_EQ(stitches_.mapped_bytes(), 0u);
}

TEST_F(StitchesTest, ABusyStitchDoesNotKeepLaterOnes) {
  std::array<StitchId, 2> ids{};
  for (StitchId& id : ids) ASSERT_EQ(stitches_.add({0, 1}, &id), Status::kOk);
  ASSERT_EQ(gpu_.enqueue(0, 5, 1'000'000), Status::kOk);
  for (const StitchId id : ids) {
    stitches_.use(id, {0}, 0, {});
    const gpu::StreamHandle stream = id == ids[0] ? 5 : 6;
    stitches_.unuse(id, stream, device_.stamp(stream));
  }
  stitches_.drop_until(8 * kMiB);
  EXPECT_NE(stitches_[ids[0]].address, 0u);
  EXPECT_EQ(stitches_[ids[1]].address, 0u) << "its work is done";
}

TEST_F(StitchesTest, IdleStitchesMakeRoomForNewOnes) {
  Stitches few(device_, stock_);
  ASSERT_EQ(few.reserve(20 * kMiB), Status::kOk);
  StitchId id = kNoStitch;
  ASSERT_EQ(few.add({0, 1}, &id), Status::kOk);
  ASSERT_EQ(few.add({1, 2}, &id), Status::kOk);
  few.use(id, {0}, 0, {});
  EXPECT_EQ(few.add({2, 3}, &id), Status::kOk);
  EXPECT_EQ(few.add({3, 0}, &id), Status::kOk);
  EXPECT_EQ(few.add({0, 1, 2, 3}, &id), Status::kOutOfMemory) << "one is in use";
  EXPECT_EQ(few.validate(), "");
}

TEST_F(StitchesTest, TheLongestIdleGoesFirst) {
  std::array<StitchId, 3> ids{};
  for (StitchId& id : ids) ASSERT_EQ(stitches_.add({0, 1}, &id), Status::kOk);
  for (const size_t i : {1, 2, 0}) stitches_.use(ids[i], {}, 0, {});
  stitches_.drop_until(16 * kMiB);
  EXPECT_EQ(stitches_[ids[1]].address, 0u);
  EXPECT_NE(stitches_[ids[0]].address, 0u);
}

TEST_F(StitchesTest, AReleasedHomeIsUsedAgainWhenTheRangeEnds) {
  ASSERT_EQ(stock_.release(1), Status::kOk);
  HandleId id = kNoHandle;
  ASSERT_EQ(stock_.create(1008 * kMiB, 0, &id), Status::kOk);
  ASSERT_EQ(stock_.create(4 * kMiB, 0, &id), Status::kOk);
  EXPECT_EQ(stock_[id].home, home_ + 4 * kMiB);
  EXPECT_EQ(stock_.create(2 * kMiB, 0, &id), Status::kOutOfMemory) << "of addresses";
  EXPECT_EQ(stock_.validate(), "");
}

}  // namespace
}  // namespace vram::pool
