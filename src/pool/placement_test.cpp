#include "pool/placement.hpp"

#include "base/bytes.hpp"
#include "pool/testing/blocks_fixture.hpp"

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

}  // namespace
}  // namespace vram::pool
