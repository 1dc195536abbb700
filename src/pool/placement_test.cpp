#include "pool/placement.hpp"

#include "base/bytes.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace vram::pool {
namespace {

class PlacementTest : public BlocksFixture {
 protected:
  PlacementTest() : stream_(arena_.stream_index(7)) {}
  ~PlacementTest() override { EXPECT_EQ(arena_.validate(), ""); }
  Wanted wanted(uint64_t bytes, Lane lane = Lane::kLarge) const {
    return {.size_bytes = bytes, .requested_bytes = bytes, .stream = stream_, .lane = lane};
  }
  void free(const Allocation& got) {
    blocks_.end(blocks_[got.block.index]);
    arena_.put(got.block.index, stream_, 1);
  }

  Placement placement_{arena_, stitches_, blocks_, stats_};
  StreamIndex stream_;
};

TEST_F(PlacementTest, ARequestGoesWhereItWasIfThatIsFree) {
  const Recall::Answer there{.address = kHome + 3 * kMiB, .stitch = kNoStitch};
  const Allocation first = placement_.place_again(there, wanted(kMiB));
  EXPECT_EQ(first.address, there.address);
  EXPECT_EQ(placement_.place_again(there, wanted(kMiB)).address, 0u) << "it is taken";
  free(first);
  EXPECT_EQ(placement_.place_again(there, wanted(2 * kMiB)).address, there.address);
  EXPECT_EQ(placement_.place_again({}, wanted(kMiB)).address, 0u) << "nothing is expected";
}

TEST_F(PlacementTest, TheBestFitIsTheSmallestPieceThatSuffices) {
  (void)placement_.place_again({.address = kHome + 5 * kMiB, .stitch = kNoStitch}, wanted(kMiB));
  EXPECT_EQ(placement_.search(wanted(2 * kMiB)).address, kHome + 6 * kMiB);
  EXPECT_EQ(placement_.search(wanted(4 * kMiB)).address, kHome);
  EXPECT_EQ(placement_.search(wanted(4 * kMiB)).address, 0u);
}

TEST_F(PlacementTest, WhatAnotherStreamFreedIsNotSearched) {
  const Allocation got = placement_.search(wanted(8 * kMiB));
  free(got);
  Wanted others = wanted(kMiB);
  others.stream = arena_.stream_index(8);
  EXPECT_EQ(placement_.search(others).address, 0u);
  EXPECT_EQ(placement_.search(wanted(kMiB)).address, kHome);
}

TEST_F(PlacementTest, OnlyTheSecondSearchLooksAmongBlocksOfTheOtherKind) {
  EXPECT_EQ(placement_.search(wanted(4 * kKiB, Lane::kSmall)).address, 0u);
  EXPECT_EQ(placement_.search_other_lanes(wanted(4 * kKiB, Lane::kSmall)).address, kHome);
}

// Steps of 100 requests of different sizes, answered with their number in all.
Recall::Answer request(Recall& recall, uint64_t number, uint64_t in_step) {
  const Recall::Answer expected = recall.expect(512 * (in_step + 1), 1);
  recall.note({.address = number});
  return expected;
}

TEST(RecallTest, AProgramThatRepeatsItselfIsExpectedToGoWhereItWentTheLastTime) {
  Recall recall;
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(request(recall, 1000 + i, i).address, 0u);
  uint64_t expected = 0;
  for (uint64_t i = 100; i < 400; ++i) {
    const Recall::Answer answer = request(recall, 1000 + i, i % 100);
    if (answer.address == 0) continue;
    ++expected;
    EXPECT_EQ(answer.address, 1000 + i - 100);
  }
  EXPECT_GT(expected, 200u) << "all but the beginning of the second step";
}

TEST(RecallTest, WhatDiffersIsNotExpected) {
  Recall recall;
  for (uint64_t i = 0; i < 300; ++i) (void)request(recall, 1000 + i, i % 100);
  EXPECT_EQ(request(recall, 5000, 777).address, 0u);
  EXPECT_EQ(recall.expect(512, 2).address, 0u) << "another stream";
}

// A step of twelve like layers: memory goes where the same layer was, not where the last one was.
TEST(RecallTest, LayersAreNotTakenForSteps) {
  Recall recall;
  uint64_t wrong = 0;
  uint64_t right = 0;
  uint64_t number = 1000;
  for (uint64_t step = 0; step < 6; ++step) {
    for (uint64_t i = 0; i < 20; ++i) (void)request(recall, number++, 100 + i);
    for (uint64_t i = 0; i < 12 * 5; ++i, ++number) {
      const Recall::Answer answer = request(recall, number, i % 5);
      if (answer.address == 0) continue;
      ++(answer.address == number - 80 ? right : wrong);
    }
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(right, 200u);
}

}  // namespace

}  // namespace vram::pool
