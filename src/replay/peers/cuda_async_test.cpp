// The rules of the model of the driver's stream-ordered allocator, one at a time, by programs whose
// chunks are known by hand. An op is a millisecond after the one before.
#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

namespace vram::replay {
namespace {

// Two neighbours of 16 MiB in one chunk, freed by two streams; then both are asked for as one.
Program two_neighbours() {
  ProgramBuilder p;
  const uint32_t a = p.alloc(16 * kMiB, 0);
  const uint32_t b = p.alloc(16 * kMiB, 1);
  const uint32_t c = p.alloc(32 * kMiB, 2);
  p.free(a);
  p.free(b);
  p.free_later(c);
  p.alloc(32 * kMiB, 0);
  return p.build();
}

TEST(CudaAsync, NeighboursOfTwoStreamsAreNoneUntilTheirWorkIsDone) {
  const Outcome outcome = run_on("cuda_async", two_neighbours(), with_lag(3));
  EXPECT_EQ(outcome.result.device_allocs, 3u);
  EXPECT_EQ(outcome.result.stream_waits, 0u);
}

TEST(CudaAsync, NeighboursThatWereNotJoinedServeARequestTogether) {
  const Outcome outcome = run_on("cuda_async", two_neighbours(), with_lag(2));
  EXPECT_EQ(outcome.result.device_allocs, 2u);
  EXPECT_EQ(outcome.result.stream_waits, 0u);
}

TEST(CudaAsync, NeighboursWhoseWorkIsDoneAreJoined) {
  EXPECT_EQ(run_on("cuda_async", two_neighbours(), with_lag(1)).result.device_allocs, 2u);
}

TEST(CudaAsync, WhereTheDeviceIsFullAStreamWaitsForTheOther) {
  ReplayOptions options = with_lag(10);
  options.capacity_bytes = 64 * kMiB;
  const Outcome outcome = run_on("cuda_async", two_neighbours(), options);
  EXPECT_TRUE(outcome.result.completed);
  EXPECT_EQ(outcome.result.device_allocs, 2u);
  EXPECT_EQ(outcome.result.stream_waits, 1u);
}

TEST(CudaAsync, ChunksThatLieFreeMoveToWhereTheyAreMissing) {
  ProgramBuilder p;
  const uint32_t low = p.alloc(48 * kMiB);
  const uint32_t middle = p.alloc(16 * kMiB);
  p.alloc(32 * kMiB);  // the third chunk
  p.free(low);
  p.alloc(64 * kMiB);  // the first chunk goes there, and a fourth
  p.free(middle);
  p.alloc(64 * kMiB);  // goes where the first two blocks were: the second chunk, and a fifth
  const Outcome outcome = run_on("cuda_async", p.build(), with_lag(0));
  EXPECT_EQ(outcome.result.device_allocs, 5u);
  EXPECT_EQ(outcome.result.peak_reserved_bytes, 160 * kMiB);
}

TEST(CudaAsync, AnEmptiedCacheLeavesAddressesThatServeAgain) {
  ProgramBuilder p;
  const uint32_t large = p.alloc(64 * kMiB);
  p.alloc(512);  // keeps the third chunk
  p.free(large);
  p.empty_cache();
  p.alloc(64 * kMiB);
  const Outcome outcome = run_on("cuda_async", p.build(), with_lag(0));
  EXPECT_EQ(outcome.result.device_frees, 2u);
  EXPECT_EQ(outcome.result.device_allocs, 5u);
  EXPECT_EQ(outcome.result.peak_reserved_bytes, 96 * kMiB);
}

}  // namespace
}  // namespace vram::replay
