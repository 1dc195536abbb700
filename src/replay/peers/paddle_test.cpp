// The rules of Paddle's allocator, one at a time, by programs whose driver calls are known by hand.
#include "replay/testing/builders.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::replay {
namespace {

using Kind = DriverCall::Kind;

TEST(Paddle, AChunkIsTheRequestIn256s) {
  ProgramBuilder p;
  p.alloc(1);
  p.alloc(257);
  p.alloc(3 * kMiB + 1);
  EXPECT_EQ(run_on("paddle", p.build()).calls,
            (Calls{{Kind::kAlloc, 256}, {Kind::kAlloc, 512}, {Kind::kAlloc, 3 * kMiB + 256}}));
}

TEST(Paddle, ChunksHaveAtLeastTheSizeThatIsSet) {
  ProgramBuilder p;
  p.alloc(kMiB);
  p.alloc(15 * kMiB);  // the rest of the first chunk
  p.alloc(20 * kMiB);
  EXPECT_EQ(run_on("paddle:auto_growth_chunk_size_in_mb=16", p.build()).calls,
            (Calls{{Kind::kAlloc, 16 * kMiB}, {Kind::kAlloc, 20 * kMiB}}));
}

TEST(Paddle, TheSmallestBlockIsTakenAndFreedNeighboursBecomeOne) {
  ProgramBuilder p;
  const uint32_t large = p.alloc(10 * kMiB);
  p.free(p.alloc(4 * kMiB));
  p.free(large);
  const uint32_t a = p.alloc(3 * kMiB);  // of the 4 MiB
  const uint32_t b = p.alloc(kMiB);      // their rest
  p.free(p.alloc(10 * kMiB));            // one chunk again
  p.free(a);
  p.free(b);
  p.alloc(4 * kMiB);
  EXPECT_EQ(run_on("paddle", p.build()).calls,
            (Calls{{Kind::kAlloc, 10 * kMiB}, {Kind::kAlloc, 4 * kMiB}}));
}

TEST(Paddle, AFullDeviceGetsTheStreamsOwnIdleChunksFirst) {
  ProgramBuilder p;
  p.free(p.alloc(40 * kMiB, 1));
  p.free(p.alloc(30 * kMiB, 2));
  p.alloc(60 * kMiB, 2);  // fits with the 40 of the other stream
  const Outcome outcome = run_on("paddle", p.build(), capacity(100 * kMiB));
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kAlloc, 40 * kMiB},
                                  {Kind::kAlloc, 30 * kMiB},
                                  {Kind::kFree, 30 * kMiB},
                                  {Kind::kAlloc, 60 * kMiB}}));
  EXPECT_EQ(outcome.result.retries, 1u);
}

TEST(Paddle, ThenThoseOfAllStreams) {
  ProgramBuilder p;
  p.free(p.alloc(40 * kMiB, 1));
  p.free(p.alloc(30 * kMiB, 2));
  p.alloc(90 * kMiB, 2);
  const Outcome outcome = run_on("paddle", p.build(), capacity(100 * kMiB));
  EXPECT_TRUE(outcome.result.completed);
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kAlloc, 40 * kMiB},
                                  {Kind::kAlloc, 30 * kMiB},
                                  {Kind::kFree, 30 * kMiB},
                                  {Kind::kFree, 40 * kMiB},
                                  {Kind::kAlloc, 90 * kMiB}}));
}

TEST(Paddle, ItsOwnLimitRefusesLikeTheDevice) {
  ProgramBuilder p;
  p.alloc(60 * kMiB);
  p.alloc(60 * kMiB);
  const Program program = p.build();
  EXPECT_TRUE(run_on("paddle", program).result.completed);
  EXPECT_FALSE(run_on("paddle:gpu_memory_limit_mb=100", program).result.completed);
}

TEST(Paddle, IdleChunksGoBackAtOnceOrBeforeTheCacheGrows) {
  ProgramBuilder p;
  p.free(p.alloc(10 * kMiB));
  p.alloc(20 * kMiB);
  const Program program = p.build();
  const Calls early = {
      {Kind::kAlloc, 10 * kMiB}, {Kind::kFree, 10 * kMiB}, {Kind::kAlloc, 20 * kMiB}};
  EXPECT_EQ(run_on("paddle:free_idle_chunk=True", program).calls, early);
  EXPECT_EQ(run_on("paddle:free_when_no_cache_hit=True", program).calls, early);
  EXPECT_EQ(run_on("paddle", program).result.device_frees, 0u);
}

}  // namespace
}  // namespace vram::replay
