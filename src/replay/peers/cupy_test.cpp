// The rules of CuPy's memory pool, one at a time, by programs whose driver calls are known by hand.
#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

namespace vram::replay {
namespace {

using Kind = DriverCall::Kind;

TEST(Cupy, ASegmentIsTheRequestIn512s) {
  ProgramBuilder p;
  p.alloc(1);
  p.alloc(513);
  p.alloc(3 * kMiB + 1);
  const Outcome outcome = run_on("cupy", p.build());
  EXPECT_EQ(outcome.calls,
            (Calls{{Kind::kAlloc, 512}, {Kind::kAlloc, 1024}, {Kind::kAlloc, 3 * kMiB + 512}}));
  EXPECT_EQ(outcome.result.peak_reserved_bytes, 3 * kMiB + 2048);
}

TEST(Cupy, TheSmallestBlockIsTakenAndSplitToSize) {
  ProgramBuilder p;
  const uint32_t large = p.alloc(10 * kMiB);
  const uint32_t small = p.alloc(4 * kMiB);
  p.free(large);
  p.free(small);
  p.alloc(4 * kMiB - 512);  // of the 4 MiB
  p.alloc(512);             // their rest
  p.alloc(10 * kMiB);       // is in one piece
  EXPECT_EQ(run_on("cupy", p.build()).calls,
            (Calls{{Kind::kAlloc, 10 * kMiB}, {Kind::kAlloc, 4 * kMiB}}));
}

TEST(Cupy, FreedNeighboursBecomeOneBlock) {
  ProgramBuilder p;
  p.free(p.alloc(4 * kMiB));
  const uint32_t a = p.alloc(kMiB);
  const uint32_t b = p.alloc(kMiB);
  const uint32_t c = p.alloc(2 * kMiB);
  for (const uint32_t block : {a, c, b}) p.free(block);
  p.alloc(4 * kMiB);
  EXPECT_EQ(run_on("cupy", p.build()).calls, (Calls{{Kind::kAlloc, 4 * kMiB}}));
}

TEST(Cupy, StreamsShareNothingPoolsEverything) {
  ProgramBuilder p;
  p.free(p.alloc(30 * kMiB, 1, 0));
  p.alloc(30 * kMiB, 2, 0);
  p.alloc(30 * kMiB, 1, 4);
  const Outcome outcome = run_on("cupy", p.build());
  EXPECT_EQ(outcome.result.device_allocs, 2u);
  EXPECT_EQ(outcome.result.stream_waits, 0u);
}

TEST(Cupy, AFullDeviceGetsEveryStreamsUnsplitSegmentsBack) {
  ProgramBuilder p;
  p.free(p.alloc(40 * kMiB, 1));
  p.free(p.alloc(20 * kMiB, 2));
  p.alloc(10 * kMiB, 2);  // splits the 20
  p.free(p.alloc(30 * kMiB));
  p.alloc(60 * kMiB);  // 90 are reserved; 40 and 30 go back
  const Outcome outcome = run_on("cupy", p.build(), capacity(100 * kMiB));
  EXPECT_TRUE(outcome.result.completed);
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kAlloc, 40 * kMiB},
                                  {Kind::kAlloc, 20 * kMiB},
                                  {Kind::kAlloc, 30 * kMiB},
                                  {Kind::kFree, 30 * kMiB},
                                  {Kind::kFree, 40 * kMiB},
                                  {Kind::kAlloc, 60 * kMiB}}));
  EXPECT_EQ(outcome.result.retries, 1u);
}

TEST(Cupy, ASplitSegmentStaysAndTheRequestFails) {
  ProgramBuilder p;
  p.free(p.alloc(60 * kMiB));
  p.alloc(10 * kMiB);
  p.alloc(80 * kMiB);
  const Outcome outcome = run_on("cupy", p.build(), capacity(100 * kMiB));
  ASSERT_FALSE(outcome.result.completed);
  EXPECT_EQ(outcome.result.oom->largest_free_bytes, 50 * kMiB);
  EXPECT_EQ(outcome.result.device_frees, 0u);
  EXPECT_EQ(outcome.result.retries, 1u);
}

TEST(Cupy, AtItsOwnLimitNothingIsGivenBack) {
  ProgramBuilder p;
  p.free(p.alloc(40 * kMiB, 1));
  p.alloc(20 * kMiB, 2);
  const Program program = p.build();
  EXPECT_TRUE(run_on("cupy:limit=60MiB", program).result.completed);
  EXPECT_TRUE(run_on("cupy", program, capacity(50 * kMiB)).result.completed);
  const Outcome outcome = run_on("cupy:limit=50MiB", program);
  EXPECT_FALSE(outcome.result.completed);
  EXPECT_EQ(outcome.result.device_frees, 0u);
  EXPECT_EQ(outcome.result.retries, 0u);
}

TEST(Cupy, FreeAllBlocksGivesBackWhatIsUnsplit) {
  ProgramBuilder p;
  p.free(p.alloc(30 * kMiB));
  p.free(p.alloc(10 * kMiB, 1));
  p.alloc(5 * kMiB, 1);
  p.empty_cache();
  const Outcome outcome = run_on("cupy", p.build());
  EXPECT_EQ(outcome.calls.back(), (std::pair{Kind::kFree, 30 * kMiB}));
  EXPECT_EQ(outcome.result.device_frees, 1u);
  EXPECT_EQ(outcome.result.retries, 0u);
}

TEST(Cupy, BadSettingsNameTheGoodOnes) {
  expect_refused({"cupy:limit=much", "cupy:limit=", "cupy:pool=1"}, "cupy: limit=SIZE");
}

}  // namespace
}  // namespace vram::replay
