// Replays that begin in the middle of a program: what the allocator held then decides what it asks
// of the driver later.
#include "replay/initial_layout.hpp"

#include "base/bytes.hpp"
#include "replay/recorded_limit.hpp"
#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

namespace vram::replay {
namespace {

using trace::BlockState;
using trace::EventKind;
using Kind = DriverCall::Kind;

constexpr uint64_t kAt = uint64_t{1} << 40;
constexpr uint64_t at_mib(uint64_t mib) { return kAt + mib * kMiB; }
constexpr std::string_view kExpandable = "torch:expandable_segments=True";

// A segment of 60 MiB with blocks at its ends and a hole of 30 MiB between: a request for 20 MiB
// goes there. Requested again, the blocks would be in segments of their own and leave no hole.
TraceMaker with_a_hole() {
  TraceMaker t;
  t.add(EventKind::kAlloc, at_mib(15), 20 * kMiB);
  t.end_segment(kAt, 60 * kMiB);
  t.end_block(kAt, 15 * kMiB, BlockState::kAllocated);
  t.end_block(at_mib(15), 20 * kMiB, BlockState::kAllocated);
  t.end_block(at_mib(35), 10 * kMiB, BlockState::kInactive);
  t.end_block(at_mib(45), 15 * kMiB, BlockState::kAllocated);
  return t;
}

TEST(InitialLayout, FreeMemoryBetweenBlocksServesRequests) {
  const Program program = with_a_hole().make();
  ASSERT_TRUE(program.knows_layout);
  const Outcome outcome = run_on("torch", program);
  EXPECT_TRUE(outcome.calls.empty());
  EXPECT_EQ(outcome.result.start, Start::kRecorded);
  EXPECT_EQ(outcome.result.start_reserved_bytes, 60 * kMiB);
  EXPECT_EQ(outcome.result.peak_reserved_bytes, 60 * kMiB);
  EXPECT_EQ(outcome.result.peak_active_bytes, 50 * kMiB);
}

TEST(InitialLayout, OtherAllocatorsAndKindsOfSegmentsGetTheBlocksAnew) {
  const Program program = with_a_hole().make();
  for (const std::string_view spec : {kExpandable, std::string_view("cuda_async"),
                                      std::string_view("vram"), std::string_view("gmlake")}) {
    SCOPED_TRACE(spec);
    const Outcome outcome = run_on(spec, program);
    EXPECT_EQ(outcome.result.start, Start::kModel);
    EXPECT_EQ(outcome.result.start_reserved_bytes, 0u);
    EXPECT_GE(outcome.result.peak_active_bytes, 50 * kMiB);
  }
}

// 60 MiB were reserved: on a smaller device, the blocks have to lie elsewhere.
TEST(InitialLayout, ASmallerDeviceGetsTheBlocksAnew) {
  const Outcome outcome = run_on("torch", with_a_hole().make(), capacity(58 * kMiB));
  EXPECT_EQ(outcome.result.start, Start::kModel);
  EXPECT_TRUE(outcome.result.completed);
}

TEST(InitialLayout, ARecordingFromTheBeginningBeginsWithNothingAlive) {
  TraceMaker t;
  t.add(EventKind::kAlloc, kAt, 512);
  t.end_segment(kAt, 2 * kMiB);
  t.end_block(kAt, 512, BlockState::kAllocated);
  t.end_block(kAt + 512, 2 * kMiB - 512, BlockState::kInactive);
  const Outcome outcome = run_on("torch", t.make());
  EXPECT_EQ(outcome.result.start, Start::kBeginning);
  EXPECT_TRUE(outcome.calls.empty());
}

// Of 19.5 MiB in a segment of 20, nothing was split off: freed, the block is the segment again.
TEST(InitialLayout, ABlockKnownByItsFreeHasTheRestThatIsNotSplitOff) {
  TraceMaker t;
  t.free(kAt, 19 * kMiB + 512 * kKiB);
  t.add(EventKind::kAlloc, kAt, 20 * kMiB);
  t.end_segment(kAt, 20 * kMiB);
  t.end_block(kAt, 20 * kMiB, BlockState::kAllocated);
  const Program program = t.make();
  ASSERT_EQ(program.initial_blocks.size(), 1u);
  EXPECT_EQ(program.initial_blocks[0].block_bytes, 20 * kMiB);
  EXPECT_TRUE(run_on("torch", program).calls.empty());
}

// The free block behind it begins half a MiB after what its request rounds to: that was its rest.
TEST(InitialLayout, AnAllocationBehindABlockShowsItsRest) {
  TraceMaker t;
  t.add(EventKind::kAlloc, at_mib(20), 10 * kMiB);
  t.free(kAt, 19 * kMiB + 512 * kKiB);
  t.end_segment(kAt, 30 * kMiB);
  t.end_block(kAt, 20 * kMiB, BlockState::kInactive);
  t.end_block(at_mib(20), 10 * kMiB, BlockState::kAllocated);
  const Program program = t.make();
  ASSERT_EQ(program.initial_blocks.size(), 1u);
  EXPECT_EQ(program.initial_blocks[0].block_bytes, 20 * kMiB);
  EXPECT_TRUE(run_on("torch", program).calls.empty());
}

TEST(InitialLayout, WhatWasPendingServesNothingUntilItCompletes) {
  TraceMaker t;
  t.streams(2);
  t.take(at_mib(40), 20 * kMiB);
  t.free(at_mib(40), 20 * kMiB);
  t.add(EventKind::kFreeCompleted, kAt, 20 * kMiB);
  t.add(EventKind::kAlloc, kAt, 20 * kMiB);
  t.end_segment(kAt, 20 * kMiB);
  t.end_block(kAt, 20 * kMiB, BlockState::kAllocated);
  t.end_segment(at_mib(40), 20 * kMiB);
  t.end_block(at_mib(40), 20 * kMiB, BlockState::kInactive);
  const Program program = t.make();
  ASSERT_EQ(program.initial_blocks.size(), 1u);
  EXPECT_TRUE(program.initial_blocks[0].is_pending);
  const Outcome outcome = run_on("torch", program);
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kAlloc, 20 * kMiB}}));
  EXPECT_EQ(outcome.result.matched_calls, 1u);
  EXPECT_EQ(outcome.result.peak_active_bytes, 40 * kMiB);
  EXPECT_EQ(outcome.result.peak_allocated_bytes, 20 * kMiB);
}

TEST(InitialLayout, FreeMemoryServesItsStreamAlone) {
  TraceMaker t;
  t.streams(2);
  t.take(at_mib(40), 20 * kMiB);
  t.end_segment(kAt, 40 * kMiB, false, 1);
  t.end_block(kAt, 20 * kMiB, BlockState::kAllocated);
  t.end_block(at_mib(20), 20 * kMiB, BlockState::kInactive);
  t.end_segment(at_mib(40), 20 * kMiB);
  t.end_block(at_mib(40), 20 * kMiB, BlockState::kAllocated);
  EXPECT_EQ(run_on("torch", t.make()).calls, (Calls{{Kind::kAlloc, 20 * kMiB}}));
}

// Two mapped ranges of one reservation, 40 and 60 MiB, with 20 MiB between: a request for 50 MiB
// takes the free end of the first and maps the gap.
TEST(InitialLayout, ExpandableRangesKeepTheirGaps) {
  TraceMaker t;
  t.setting("expandable_segments", "True");
  t.add(EventKind::kSegmentMap, at_mib(40), 20 * kMiB);
  t.add(EventKind::kAlloc, at_mib(10), 50 * kMiB);
  t.end_segment(kAt, 120 * kMiB, true);
  t.end_block(kAt, 10 * kMiB, BlockState::kAllocated);
  t.end_block(at_mib(10), 50 * kMiB, BlockState::kAllocated);
  t.end_block(at_mib(60), 60 * kMiB, BlockState::kAllocated);
  const Program program = t.make();
  ASSERT_EQ(program.initial_segments.size(), 2u);
  const Outcome outcome = run_on(kExpandable, program);
  EXPECT_EQ(outcome.result.start_reserved_bytes, 100 * kMiB);
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kMap, 20 * kMiB}}));
  EXPECT_EQ(outcome.result.matched_calls, 1u);
}

// Its beginning was unmapped when the recording begins: a later map says where it lies.
TEST(InitialLayout, AReservationBeginsWhereTheLowestPageIsMapped) {
  TraceMaker t;
  t.setting("expandable_segments", "True");
  t.add(EventKind::kSegmentMap, kAt, 20 * kMiB);
  t.add(EventKind::kAlloc, kAt, 20 * kMiB);
  t.end_segment(kAt, 20 * kMiB, true);
  t.end_block(kAt, 20 * kMiB, BlockState::kAllocated);
  t.end_segment(at_mib(40), 20 * kMiB, true);
  t.end_block(at_mib(40), 20 * kMiB, BlockState::kAllocated);
  const Program program = t.make();
  ASSERT_EQ(program.initial_segments.size(), 1u);
  EXPECT_EQ(program.initial_segments[0].reservation_address, kAt);
  EXPECT_EQ(run_on(kExpandable, program).calls, (Calls{{Kind::kMap, 20 * kMiB}}));
}

// Ten pages of the small pool that go back together look like a granule of the large one.
TEST(InitialLayout, BlocksSayOfWhichPoolPagesAre) {
  TraceMaker t;
  t.setting("expandable_segments", "True");
  t.free(kAt, 512);
  t.add(EventKind::kSegmentUnmap, kAt, 20 * kMiB);
  t.add(EventKind::kOther, 0, 0);
  t.end_segment(at_mib(60), 20 * kMiB, true);
  t.end_block(at_mib(60), 20 * kMiB, BlockState::kAllocated);
  const Program program = t.make();
  ASSERT_EQ(program.initial_segments.size(), 2u);
  EXPECT_TRUE(program.initial_segments[0].is_small);
  EXPECT_FALSE(program.initial_segments[1].is_small);
  const Outcome outcome = run_on(kExpandable, program);
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kUnmap, 20 * kMiB}}));
}

// The recorded PyTorch did not use expandable segments there.
TEST(InitialLayout, APrivatePoolMayHaveNativeSegmentsBesideExpandableOnes) {
  TraceMaker t;
  t.setting("expandable_segments", "True");
  t.add(EventKind::kSegmentAlloc, at_mib(100), 20 * kMiB, 0, 1);
  t.add(EventKind::kAlloc, at_mib(100), 5 * kMiB, 0, 1);
  t.end_segment(kAt, 20 * kMiB, true);
  t.end_block(kAt, 20 * kMiB, BlockState::kAllocated);
  t.end_segment(at_mib(60), 30 * kMiB, false, 0, 1);
  t.end_block(at_mib(60), 30 * kMiB, BlockState::kAllocated);
  t.end_segment(at_mib(100), 20 * kMiB, false, 0, 1);
  t.end_block(at_mib(100), 5 * kMiB, BlockState::kAllocated);
  t.end_block(at_mib(105), 15 * kMiB, BlockState::kInactive);
  const Outcome outcome = run_on(kExpandable, t.make());
  EXPECT_EQ(outcome.result.start, Start::kRecorded);
  EXPECT_EQ(outcome.result.start_reserved_bytes, 50 * kMiB);
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kAlloc, 20 * kMiB}}));
}

// Without an end state nothing says where the memory around the blocks was.
TEST(InitialLayout, IsUnknownWithoutAnEndState) {
  TraceMaker t;
  t.free(kAt, 20 * kMiB);
  t.add(EventKind::kAlloc, kAt, 512);
  const Program program = t.make();
  EXPECT_FALSE(program.knows_layout);
  EXPECT_EQ(run_on("torch", program).result.start, Start::kModel);
}

// The ring begins inside a call that was giving memory back: how much it had is not known, so it
// refutes no limit. A later refusal does.
TEST(InitialLayout, ACallThatBeganBeforeTheRecordingBoundsNoLimit) {
  TraceMaker t;
  t.add(EventKind::kSegmentFree, at_mib(100), 20 * kMiB);
  t.take(at_mib(200), 30 * kMiB);
  t.take(at_mib(300), 40 * kMiB);
  t.add(EventKind::kOom, 0, 60 * kMiB);
  t.end_segment(kAt, 20 * kMiB);
  t.end_block(kAt, 20 * kMiB, BlockState::kAllocated);
  t.end_segment(at_mib(200), 30 * kMiB);
  t.end_block(at_mib(200), 30 * kMiB, BlockState::kAllocated);
  t.end_segment(at_mib(300), 40 * kMiB);
  t.end_block(at_mib(300), 40 * kMiB, BlockState::kAllocated);
  const auto limit = recorded_limit(t.make());
  ASSERT_TRUE(limit);
  EXPECT_GE(limit->bytes, 90 * kMiB);
  EXPECT_LT(limit->bytes, 150 * kMiB);
}

}  // namespace
}  // namespace vram::replay
