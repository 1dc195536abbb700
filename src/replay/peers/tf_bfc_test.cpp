// The rules of the BFC allocator, one at a time, by programs whose driver calls are known by hand.
#include "replay/testing/builders.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::replay {
namespace {

using Kind = DriverCall::Kind;
using testing::HasSubstr;

// Bytes that a request holds of a free region of that size.
uint64_t taken(uint64_t region_bytes, uint64_t request_bytes) {
  ProgramBuilder p;
  p.free(p.alloc(region_bytes));
  p.alloc(request_bytes);
  p.refused(region_bytes + 1);  // its failure tells what is allocated
  return run_on("tf_bfc:garbage_collection=False", p.build(), capacity(region_bytes))
      .result.oom->allocated_bytes;
}

TEST(TfBfc, RegionsStartAt2MiBAndDouble) {
  ProgramBuilder p;
  p.alloc(kMiB);
  p.alloc(kMiB);
  p.alloc(kMiB);      // 4 MiB
  p.alloc(3 * kMiB);  // their rest
  p.alloc(1);         // 8 MiB
  EXPECT_EQ(run_on("tf_bfc", p.build()).calls,
            (Calls{{Kind::kAlloc, 2 * kMiB}, {Kind::kAlloc, 4 * kMiB}, {Kind::kAlloc, 8 * kMiB}}));
}

TEST(TfBfc, ALargeRequestDoublesTheRegionUntilItFitsAndNotOnceMore) {
  ProgramBuilder p;
  p.alloc(10 * kMiB);
  p.alloc(10 * kMiB);
  p.alloc(kMiB);
  EXPECT_EQ(
      run_on("tf_bfc", p.build()).calls,
      (Calls{{Kind::kAlloc, 16 * kMiB}, {Kind::kAlloc, 16 * kMiB}, {Kind::kAlloc, 32 * kMiB}}));
}

TEST(TfBfc, RoundsTo256) {
  EXPECT_EQ(taken(2 * kMiB, 1), 256u);
  EXPECT_EQ(taken(2 * kMiB, 257), 512u);
}

TEST(TfBfc, SplitsAtTwiceTheRequestOr128MiBOfRest) {
  EXPECT_EQ(taken(8 * kMiB, 4 * kMiB), 4 * kMiB);
  EXPECT_EQ(taken(8 * kMiB, 4 * kMiB + 1), 8 * kMiB);
  EXPECT_EQ(taken(512 * kMiB, 384 * kMiB), 384 * kMiB);
  EXPECT_EQ(taken(512 * kMiB, 384 * kMiB + 1), 512 * kMiB);
}

TEST(TfBfc, TheSmallestChunkIsTaken) {
  ProgramBuilder p;
  const uint32_t a = p.alloc(64 * kMiB);
  const uint32_t b = p.alloc(64 * kMiB);
  const uint32_t c = p.alloc(16 * kMiB);  // of a region of 128: splits
  p.free(a);
  p.alloc(100 * kMiB);  // the rest of it, 112, whole
  p.free(c);
  p.alloc(10 * kMiB);  // the 16, whole, though the 64 would do
  p.alloc(64 * kMiB);  // which are in one piece
  p.free(b);
  const Outcome outcome = run_on("tf_bfc", p.build());
  EXPECT_EQ(
      outcome.calls,
      (Calls{{Kind::kAlloc, 64 * kMiB}, {Kind::kAlloc, 64 * kMiB}, {Kind::kAlloc, 128 * kMiB}}));
  EXPECT_EQ(outcome.result.peak_allocated_bytes, 256 * kMiB);
}

TEST(TfBfc, FreedNeighboursBecomeOneChunkOfAllStreams) {
  ProgramBuilder p;
  p.free(p.alloc(4 * kMiB, 1));
  const uint32_t a = p.alloc(kMiB, 1);
  const uint32_t b = p.alloc(kMiB, 2);
  const uint32_t c = p.alloc(2 * kMiB, 0);
  for (const uint32_t block : {a, c, b}) p.free(block);
  p.alloc(4 * kMiB, 2);
  const Outcome outcome = run_on("tf_bfc", p.build());
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kAlloc, 4 * kMiB}}));
  EXPECT_EQ(outcome.result.stream_waits, 0u);
}

TEST(TfBfc, TheLastRegionIsWhatIsLeft) {
  ProgramBuilder p;
  p.alloc(2 * kMiB);
  p.alloc(3 * kMiB);  // 4 MiB
  p.alloc(3 * kMiB);  // 8 would be next, 4 are left
  p.alloc(1);
  const Outcome outcome = run_on("tf_bfc", p.build(), capacity(10 * kMiB));
  EXPECT_EQ(outcome.calls,
            (Calls{{Kind::kAlloc, 2 * kMiB}, {Kind::kAlloc, 4 * kMiB}, {Kind::kAlloc, 4 * kMiB}}));
  EXPECT_EQ(outcome.result.oom->event, 3u);
}

// 3 MiB are left below the limit, but of the device only one page of 2 MiB.
TEST(TfBfc, ARegionThatIsRefusedIsAskedForATenthSmaller) {
  ProgramBuilder p;
  p.alloc(2 * kMiB);
  p.alloc(3 * kMiB);
  p.alloc(kMiB);  // 3145728, 2831360, 2548224, 2293504, 2064384
  EXPECT_EQ(run_on("tf_bfc", p.build(), capacity(9 * kMiB)).calls,
            (Calls{{Kind::kAlloc, 2 * kMiB}, {Kind::kAlloc, 4 * kMiB}, {Kind::kAlloc, 2064384}}));
}

TEST(TfBfc, ButNotSmallerThanTheRequest) {
  ProgramBuilder p;
  p.alloc(2 * kMiB);
  p.alloc(3 * kMiB);
  p.alloc(2 * kMiB);
  EXPECT_FALSE(run_on("tf_bfc", p.build(), capacity(9 * kMiB)).result.completed);
}

TEST(TfBfc, FreeRegionsGoBackWhereThatHelps) {
  ProgramBuilder p;
  p.free(p.alloc(40 * kMiB));  // 64
  p.alloc(80 * kMiB);
  const Program program = p.build();
  const Outcome outcome = run_on("tf_bfc", program, capacity(100 * kMiB));
  EXPECT_EQ(
      outcome.calls,
      (Calls{{Kind::kAlloc, 64 * kMiB}, {Kind::kFree, 64 * kMiB}, {Kind::kAlloc, 100 * kMiB}}));
  EXPECT_EQ(outcome.result.retries, 1u);
  const Outcome without = run_on("tf_bfc:garbage_collection=False", program, capacity(100 * kMiB));
  EXPECT_FALSE(without.result.completed);
  EXPECT_EQ(without.result.retries, 0u);
}

TEST(TfBfc, FreeRegionsStayWhereItWouldNotHelp) {
  ProgramBuilder p;
  p.free(p.alloc(40 * kMiB));
  p.alloc(101 * kMiB);
  const Outcome outcome = run_on("tf_bfc", p.build(), capacity(100 * kMiB));
  EXPECT_FALSE(outcome.result.completed);
  EXPECT_EQ(outcome.result.oom->largest_free_bytes, 64 * kMiB);
  EXPECT_EQ(outcome.result.device_frees, 0u);
  EXPECT_EQ(outcome.result.retries, 0u);
}

TEST(TfBfc, EmptyCacheMeansNothingToIt) {
  ProgramBuilder p;
  p.free(p.alloc(kMiB));
  p.empty_cache();
  EXPECT_EQ(run_on("tf_bfc", p.build()).result.device_frees, 0u);
}

TEST(TfBfc, WithoutGrowthItTakesAllThereIs) {
  ProgramBuilder p;
  p.alloc(kMiB);
  const Program program = p.build();
  EXPECT_EQ(run_on("tf_bfc:allow_growth=False", program, capacity(64 * kMiB)).calls,
            (Calls{{Kind::kAlloc, 64 * kMiB}}));
  EXPECT_EQ(
      run_on("tf_bfc:allow_growth=False,memory_fraction=0.75", program, capacity(64 * kMiB)).calls,
      (Calls{{Kind::kAlloc, 48 * kMiB}}));
}

TEST(TfBfc, WithoutGrowthTheCapacityMustBeKnown) {
  ProgramBuilder p;
  p.alloc(kMiB);
  const Program program = p.build();
  const auto spec = parse_spec("tf_bfc:allow_growth=False").value();
  const auto refused = replay(program, spec, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("--capacity"));
  EXPECT_TRUE(replay(program, spec, capacity(64 * kMiB)));
}

TEST(TfBfc, BadSettingsNameTheGoodOnes) {
  expect_refused({"tf_bfc:allow_growth=maybe", "tf_bfc:memory_fraction=0", "tf_bfc:preallocate=1"},
                 "tf_bfc: allow_growth=True|False");
}

}  // namespace
}  // namespace vram::replay
