// The rules of RMM's pool, one at a time, by programs whose driver calls and waits are known by
// hand.
#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

namespace vram::replay {
namespace {

using Kind = DriverCall::Kind;

// Time passes: one millisecond each.
void wait(ProgramBuilder& p, int milliseconds) {
  for (int i = 0; i < milliseconds; ++i) p.alloc(0);
}

TEST(RmmPool, AnEmptyPoolTakesTheRequestIn256s) {
  ProgramBuilder p;
  p.alloc(257);
  EXPECT_EQ(run_on("rmm_pool", p.build()).calls, (Calls{{Kind::kAlloc, 512}}));
}

TEST(RmmPool, GrowsByItsOwnSizeOrTheRequest) {
  ProgramBuilder p;
  for (int i = 0; i < 5; ++i) p.alloc(kMiB);
  p.alloc(20 * kMiB);
  EXPECT_EQ(run_on("rmm_pool", p.build()).calls, (Calls{{Kind::kAlloc, kMiB},
                                                        {Kind::kAlloc, kMiB},
                                                        {Kind::kAlloc, 2 * kMiB},
                                                        {Kind::kAlloc, 4 * kMiB},
                                                        {Kind::kAlloc, 20 * kMiB}}));
}

TEST(RmmPool, BelowAMaximumGrowsByHalfOfWhatIsLeft) {
  ProgramBuilder p;
  p.alloc(8 * kMiB);
  p.alloc(kMiB);      // 8 are left: 4
  p.alloc(3 * kMiB);  // their rest
  p.alloc(3 * kMiB);  // 4 are left
  p.alloc(2 * kMiB);  // 1 is left
  const Outcome outcome = run_on("rmm_pool:maximum_pool_size=16MiB", p.build());
  EXPECT_EQ(outcome.calls,
            (Calls{{Kind::kAlloc, 8 * kMiB}, {Kind::kAlloc, 4 * kMiB}, {Kind::kAlloc, 3 * kMiB}}));
  EXPECT_FALSE(outcome.result.completed);
  EXPECT_EQ(outcome.result.oom->event, 4u);
  EXPECT_EQ(outcome.result.retries, 0u);
}

TEST(RmmPool, AsksForHalfWhereTheDeviceRefuses) {
  ProgramBuilder p;
  p.alloc(16 * kMiB);
  p.alloc(2 * kMiB);  // 16, 8, 4
  p.alloc(2 * kMiB);
  p.alloc(kMiB);  // 20, 10, 5, 2.5, 1.25
  p.alloc(kMiB);  // 21.25, ..., 1.33, 1
  const Outcome outcome = run_on("rmm_pool", p.build(), capacity(22 * kMiB));
  EXPECT_EQ(
      outcome.calls,
      (Calls{{Kind::kAlloc, 16 * kMiB}, {Kind::kAlloc, 4 * kMiB}, {Kind::kAlloc, 5 * kMiB / 4}}));
  EXPECT_EQ(outcome.result.oom->event, 4u);
  EXPECT_EQ(outcome.result.oom->largest_free_bytes, kMiB / 4);
}

TEST(RmmPool, TheSmallestBlockIsTakenAndSplitToSize) {
  ProgramBuilder p;
  const uint32_t large = p.alloc(10 * kMiB);
  const uint32_t middle = p.alloc(4 * kMiB);  // grows by 10
  const uint32_t guard = p.alloc(kMiB);
  p.free(middle);
  p.free(large);
  p.alloc(4 * kMiB - 256);  // free are 10, 4 and 5: of the 4
  p.alloc(5 * kMiB);
  p.alloc(256);
  p.alloc(10 * kMiB);
  p.free(guard);
  EXPECT_EQ(run_on("rmm_pool", p.build()).calls,
            (Calls{{Kind::kAlloc, 10 * kMiB}, {Kind::kAlloc, 10 * kMiB}}));
}

TEST(RmmPool, BlocksOfTwoSegmentsNeverMerge) {
  ProgramBuilder p;
  const uint32_t a = p.alloc(4 * kMiB);
  const uint32_t b = p.alloc(4 * kMiB);
  p.free(a);
  p.free(b);
  p.alloc(8 * kMiB);
  EXPECT_EQ(run_on("rmm_pool", p.build()).calls,
            (Calls{{Kind::kAlloc, 4 * kMiB}, {Kind::kAlloc, 4 * kMiB}, {Kind::kAlloc, 8 * kMiB}}));
}

TEST(RmmPool, AnotherStreamsListKeepsTheRest) {
  ProgramBuilder p;
  p.free(p.alloc(8 * kMiB, 1));
  const uint32_t borrowed = p.alloc(2 * kMiB, 2);  // waits for stream 1
  p.alloc(6 * kMiB, 1);                            // does not wait: it is its own
  p.free(borrowed);                                // to stream 2's list
  p.alloc(2 * kMiB, 1);                            // waits for stream 2
  const Outcome outcome = run_on("rmm_pool", p.build());
  EXPECT_EQ(outcome.result.device_allocs, 1u);
  EXPECT_EQ(outcome.result.stream_waits, 2u);
}

TEST(RmmPool, TheOwnListComesFirstAlsoWhereAnotherFitsBetter) {
  ProgramBuilder p;
  p.free(p.alloc(4 * kMiB, 1));
  const uint32_t a = p.alloc(4 * kMiB, 2);  // borrowed
  const uint32_t b = p.alloc(16 * kMiB, 1);
  p.free(b);
  p.free(a);  // stream 1 has 16, stream 2 has 4
  p.alloc(4 * kMiB, 1);
  const Outcome outcome = run_on("rmm_pool", p.build());
  EXPECT_EQ(outcome.result.stream_waits, 1u);
}

TEST(RmmPool, ListsMergeBeforeThePoolGrows) {
  ProgramBuilder p;
  p.free(p.alloc(8 * kMiB, 1));
  p.free(p.alloc(4 * kMiB, 2));  // stream 2 has the lower half now, stream 1 the upper
  p.alloc(8 * kMiB, 0);          // waits for both
  const Outcome outcome = run_on("rmm_pool", p.build());
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kAlloc, 8 * kMiB}}));
  EXPECT_EQ(outcome.result.stream_waits, 3u);
}

TEST(RmmPool, MergingEndsWithTheFirstListThatSuffices) {
  ProgramBuilder p;
  p.free(p.alloc(8 * kMiB, 1));
  const uint32_t low = p.alloc(4 * kMiB, 1);
  p.free(p.alloc(4 * kMiB, 2));  // the upper half
  p.free(low);
  p.free(p.alloc(kMiB, 0));  // of stream 1's
  p.alloc(8 * kMiB, 2);      // stream 1's list does not suffice, stream 0's is needed, too
  const Outcome outcome = run_on("rmm_pool", p.build());
  EXPECT_EQ(outcome.result.device_allocs, 1u);
  EXPECT_EQ(outcome.result.stream_waits, 1u + 1u + 2u);
}

TEST(RmmPool, NobodyWaitsForAFreeThatLiesBackAsFarAsTheLag) {
  for (const int passed : {2, 3, 4}) {
    ProgramBuilder p;
    p.free(p.alloc(8 * kMiB, 1));
    wait(p, passed - 1);
    p.alloc(8 * kMiB, 2);
    const Outcome outcome = run_on("rmm_pool", p.build(), with_lag(3));
    EXPECT_EQ(outcome.result.stream_waits, passed < 3 ? 1u : 0u) << passed;
  }
}

TEST(RmmPool, WaitsForTheStreamsLastFreeWhicheverBlockItWas) {
  ProgramBuilder p;
  const uint32_t taken = p.alloc(2 * kMiB, 1);
  const uint32_t other = p.alloc(8 * kMiB, 1);
  p.free(taken);
  wait(p, 10);
  p.free(other);
  p.alloc(2 * kMiB, 2);
  const Outcome outcome = run_on("rmm_pool", p.build(), with_lag(3));
  EXPECT_EQ(outcome.result.stream_waits, 1u);
  EXPECT_EQ(outcome.result.device_allocs, 2u);
}

TEST(RmmPool, AFreeOnAnotherStreamIsThereFromItsCompletion) {
  ProgramBuilder p;
  const uint32_t block = p.alloc(8 * kMiB, 1);
  p.free_later(block);
  wait(p, 10);
  p.complete(block);
  p.alloc(8 * kMiB, 2);
  const Outcome outcome = run_on("rmm_pool", p.build(), with_lag(3));
  EXPECT_EQ(outcome.result.stream_waits, 1u);
}

TEST(RmmPool, NobodyWaitsForTheInitialPool) {
  ProgramBuilder p;
  p.alloc(2 * kMiB, 1);
  p.alloc(2 * kMiB, 2);
  const Outcome outcome = run_on("rmm_pool:initial_pool_size=16MiB", p.build());
  EXPECT_EQ(outcome.result.peak_reserved_bytes, 16 * kMiB);
  EXPECT_EQ(outcome.result.device_allocs, 1u);
  EXPECT_EQ(outcome.result.stream_waits, 0u);
}

TEST(RmmPool, WithoutRoomForTheInitialPoolNothingIsServed) {
  ProgramBuilder p;
  p.alloc(256);
  const Outcome outcome =
      run_on("rmm_pool:initial_pool_size=16MiB", p.build(), capacity(15 * kMiB));
  EXPECT_EQ(outcome.result.oom->event, 0u);
}

TEST(RmmPool, BelowAMaximumWholeFreeSegmentsMakeRoom) {
  ProgramBuilder p;
  p.alloc(1024);
  const Outcome outcome =
      run_on("rmm_pool:initial_pool_size=256,maximum_pool_size=1024", p.build());
  // The initial pool was there before the program.
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kFree, 256}, {Kind::kAlloc, 1024}}));
  EXPECT_TRUE(outcome.result.completed);
  EXPECT_EQ(outcome.result.retries, 1u);
}

TEST(RmmPool, NoMoreOfThemThanNeededTheLowestFirst) {
  ProgramBuilder p;
  const uint32_t a = p.alloc(8 * kMiB);  // 8 of 16
  const uint32_t b = p.alloc(4 * kMiB);  // 4 of 8
  const uint32_t c = p.alloc(4 * kMiB);
  for (const uint32_t block : {c, b, a}) p.free(block);
  p.alloc(10 * kMiB);
  const Outcome outcome = run_on("rmm_pool:maximum_pool_size=16MiB", p.build());
  ASSERT_EQ(outcome.calls.size(), 6u);
  EXPECT_EQ(outcome.calls[3], (std::pair{Kind::kFree, 8 * kMiB}));
  EXPECT_EQ(outcome.calls[4], (std::pair{Kind::kFree, 4 * kMiB}));
  EXPECT_EQ(outcome.calls[5], (std::pair{Kind::kAlloc, 10 * kMiB}));
}

TEST(RmmPool, WithoutAMaximumNothingGoesBack) {
  ProgramBuilder p;
  p.free(p.alloc(60 * kMiB));
  p.empty_cache();
  p.alloc(80 * kMiB);
  const Outcome outcome = run_on("rmm_pool", p.build(), capacity(100 * kMiB));
  EXPECT_FALSE(outcome.result.completed);
  EXPECT_EQ(outcome.result.oom->largest_free_bytes, 60 * kMiB);
  EXPECT_EQ(outcome.result.device_frees, 0u);
  EXPECT_EQ(outcome.result.retries, 0u);
}

TEST(RmmPool, BadSettingsNameTheGoodOnes) {
  expect_refused(
      {"rmm_pool:initial_pool_size=100", "rmm_pool:maximum_pool_size=x",
       "rmm_pool:initial_pool_size=2MiB,maximum_pool_size=1MiB", "rmm_pool:pool_size=1MiB"},
      "rmm_pool: initial_pool_size=SIZE");
}

}  // namespace
}  // namespace vram::replay
