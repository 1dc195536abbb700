// The rules of GMLake, one at a time, by programs whose driver calls are known by hand.
#include "replay/peers/gmlake.hpp"

#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

namespace vram::replay {
namespace {

using Kind = DriverCall::Kind;

uint64_t count(const Outcome& outcome, std::string_view name) {
  for (const DriverCallCount& call : outcome.result.driver_calls) {
    if (call.name == name) return call.count;
  }
  return 0;
}

// What was mapped a second time; every handle is mapped once by itself.
uint64_t stitched_bytes(const Outcome& outcome) {
  return (count(outcome, "cuMemMap") - count(outcome, "cuMemCreate")) * 2 * kMiB;
}

Calls maps(std::initializer_list<uint64_t> mebibytes) {
  Calls calls;
  for (const uint64_t each : mebibytes) calls.emplace_back(Kind::kMap, each * kMiB);
  return calls;
}

// Blocks of their own segments, all free.
void free_blocks(ProgramBuilder& p, std::initializer_list<uint64_t> mebibytes,
                 trace::StreamId stream = 0) {
  std::vector<uint32_t> blocks;
  for (const uint64_t each : mebibytes) blocks.push_back(p.alloc(each * kMiB, stream));
  for (const uint32_t block : blocks) p.free(block);
}

TEST(GmLake, SmallRequestsAreServedAsInPyTorch) {
  ProgramBuilder p;
  p.alloc(1);
  p.alloc(kMiB);
  p.alloc(kMiB);  // 512 B too much for what is left
  EXPECT_EQ(run_on("gmlake", p.build()).calls,
            (Calls{{Kind::kAlloc, 2 * kMiB}, {Kind::kAlloc, 2 * kMiB}}));
}

TEST(GmLake, LargeRequestsAreMultiplesOf2MiBAndSoAreHandles) {
  ProgramBuilder p;
  p.alloc(10 * kMiB + 1);  // 12
  p.alloc(kMiB + 1);       // 2 of 20
  p.alloc(18 * kMiB);      // the rest
  const Outcome outcome = run_on("gmlake", p.build());
  EXPECT_EQ(outcome.calls, maps({12, 20}));
  EXPECT_EQ(outcome.result.peak_active_bytes, 32 * kMiB);
  EXPECT_EQ(count(outcome, "cuMemCreate"), 16u);
  EXPECT_EQ(count(outcome, "cuMemSetAccess"), 16u);
}

TEST(GmLake, FreedNeighboursBecomeOneBlock) {
  ProgramBuilder p;
  free_blocks(p, {20});
  const uint32_t a = p.alloc(6 * kMiB);
  const uint32_t b = p.alloc(2 * kMiB);
  const uint32_t c = p.alloc(12 * kMiB);
  for (const uint32_t block : {a, c, b}) p.free(block);
  p.alloc(20 * kMiB);
  const Outcome outcome = run_on("gmlake:fragLimit=2MiB", p.build());
  EXPECT_EQ(outcome.calls, maps({20}));
  EXPECT_EQ(stitched_bytes(outcome), 0u);
}

TEST(GmLake, StitchesFromTheLargestDownwardsAndSplitsTheLast) {
  ProgramBuilder p;
  free_blocks(p, {10, 14, 30});
  p.alloc(40 * kMiB);  // the 30 and 10 of the 14
  p.alloc(12 * kMiB);  // free are 10 and 4, too few to stitch for
  p.alloc(10 * kMiB);
  p.alloc(4 * kMiB);
  const Outcome outcome = run_on("gmlake:fragLimit=16MiB", p.build());
  EXPECT_EQ(outcome.calls, maps({10, 14, 30, 12}));
  EXPECT_EQ(stitched_bytes(outcome), 40 * kMiB);
  EXPECT_EQ(outcome.result.peak_reserved_bytes, 66 * kMiB);
  EXPECT_EQ(outcome.result.peak_active_bytes, 66 * kMiB);
}

TEST(GmLake, BelowFragLimitNothingIsStitched) {
  for (const uint64_t bytes : {510 * kMiB, 512 * kMiB}) {
    ProgramBuilder p;
    free_blocks(p, {256, 256});
    p.alloc(bytes);
    const bool is_stitched = bytes == 512 * kMiB;
    const Outcome outcome = run_on("gmlake", p.build());
    EXPECT_EQ(stitched_bytes(outcome), is_stitched ? bytes : 0);
    EXPECT_EQ(outcome.result.device_allocs, is_stitched ? 2u : 3u);
  }
}

TEST(GmLake, OnlyBlocksOfOneStreamAndPoolAreStitched) {
  for (const uint32_t other : {0u, 1u}) {
    ProgramBuilder p;
    free_blocks(p, {30, 20}, 1);
    p.alloc(50 * kMiB, other == 0 ? 1 : 2);
    p.alloc(50 * kMiB, 1, 7);
    const Outcome outcome = run_on("gmlake:fragLimit=2MiB", p.build());
    EXPECT_EQ(outcome.calls, other == 0 ? maps({30, 20, 50}) : maps({30, 20, 50, 50}));
    EXPECT_EQ(outcome.result.stream_waits, 0u);
  }
}

TEST(GmLake, AStitchedBlockServesAgain) {
  ProgramBuilder p;
  free_blocks(p, {30, 20});
  for (int i = 0; i < 3; ++i) p.free(p.alloc(50 * kMiB));
  const Outcome outcome = run_on("gmlake:fragLimit=2MiB", p.build());
  EXPECT_EQ(outcome.calls, maps({30, 20}));
  EXPECT_EQ(stitched_bytes(outcome), 50 * kMiB);
}

TEST(GmLake, UpToReuseLimitAndOnlyItsLowerPart) {
  ProgramBuilder p;
  free_blocks(p, {30, 20});
  p.free(p.alloc(50 * kMiB));
  const uint32_t part = p.alloc(40 * kMiB);
  p.alloc(10 * kMiB);  // the rest of the 20
  p.free(part);
  const Program program = p.build();
  const Outcome reused = run_on("gmlake:fragLimit=2MiB,reuseLimit=1.25", program);
  EXPECT_EQ(reused.calls, maps({30, 20}));
  EXPECT_EQ(stitched_bytes(reused), 50 * kMiB);
  const Outcome anew = run_on("gmlake:fragLimit=2MiB,reuseLimit=1.24", program);
  EXPECT_EQ(anew.calls, maps({30, 20}));
  EXPECT_EQ(stitched_bytes(anew), 90 * kMiB);
}

TEST(GmLake, MemoryUnderAStitchedBlockInUseIsInUse) {
  ProgramBuilder p;
  free_blocks(p, {30, 20});
  p.alloc(50 * kMiB);
  p.alloc(20 * kMiB);
  EXPECT_EQ(run_on("gmlake:fragLimit=2MiB", p.build()).calls, maps({30, 20, 20}));
}

TEST(GmLake, AStitchedBlockIsBusyWhileAPrimitiveOneUnderItIs) {
  ProgramBuilder p;
  free_blocks(p, {30, 20});
  p.free(p.alloc(50 * kMiB));
  const uint32_t part = p.alloc(6 * kMiB);  // of the 20
  const uint32_t other = p.alloc(50 * kMiB);
  p.free(part);
  p.alloc(50 * kMiB);  // the stitched one again
  p.free(other);
  const Outcome outcome = run_on("gmlake:fragLimit=2MiB", p.build());
  EXPECT_EQ(outcome.calls, maps({30, 20, 50}));
  EXPECT_EQ(stitched_bytes(outcome), 50 * kMiB);
}

// The blocks that were stitched have become part of larger ones since.
TEST(GmLake, AReusedStitchedBlockTakesItsPartOfAMergedBlock) {
  for (const bool is_lower_half : {true, false}) {
    ProgramBuilder p;
    free_blocks(p, {40, 30});
    const uint32_t thirty = p.alloc(30 * kMiB);
    const uint32_t lower = p.alloc(20 * kMiB);
    const uint32_t upper = p.alloc(20 * kMiB);
    p.free(thirty);
    p.free(is_lower_half ? lower : upper);
    p.free(p.alloc(50 * kMiB));
    p.free(is_lower_half ? upper : lower);  // 40 again
    p.alloc(50 * kMiB);
    p.alloc(20 * kMiB);  // the other half
    const Outcome outcome = run_on("gmlake:fragLimit=42MiB", p.build());
    EXPECT_EQ(outcome.calls, maps({40, 30}));
    EXPECT_EQ(stitched_bytes(outcome), 50 * kMiB);
  }
}

TEST(GmLake, PastAutoGcIdleStitchedBlocksGo) {
  ProgramBuilder p;
  free_blocks(p, {24, 30, 20});
  const uint32_t kept = p.alloc(24 * kMiB);
  p.free(p.alloc(50 * kMiB));
  p.alloc(20 * kMiB);
  p.free(kept);
  p.alloc(54 * kMiB);  // makes 104 MiB of stitched blocks, 50 of them idle
  const Program program = p.build();
  const Outcome above = run_on("gmlake:fragLimit=2MiB,autoGC=103MiB", program);
  EXPECT_EQ(stitched_bytes(above), 104 * kMiB);
  EXPECT_EQ(count(above, "cuMemUnmap"), 1u);
  EXPECT_EQ(count(above, "cuMemAddressFree"), 1u);
  EXPECT_EQ(above.result.device_frees, 0u);
  const Outcome within = run_on("gmlake:fragLimit=2MiB,autoGC=104MiB", program);
  EXPECT_EQ(count(within, "cuMemUnmap"), 0u);
}

TEST(GmLake, StitchedBlocksInUseAreNoGarbage) {
  ProgramBuilder p;
  free_blocks(p, {30, 20});
  p.alloc(50 * kMiB);
  free_blocks(p, {30, 20});
  p.alloc(50 * kMiB);
  const Outcome outcome = run_on("gmlake:fragLimit=2MiB,autoGC=2MiB", p.build());
  EXPECT_EQ(stitched_bytes(outcome), 100 * kMiB);
  EXPECT_EQ(count(outcome, "cuMemUnmap"), 0u);
}

TEST(GmLake, EmptyCacheTakesIdleStitchedBlocksAndWholeFreeSegments) {
  ProgramBuilder p;
  free_blocks(p, {30, 20, 20}, 1);
  free_blocks(p, {30, 20});
  p.free(p.alloc(50 * kMiB));     // goes with the 30
  p.free(p.alloc(70 * kMiB, 1));  // goes with any of the three
  p.free(p.alloc(kMiB));
  p.alloc(6 * kMiB);  // of the last 20
  p.empty_cache();
  const Outcome outcome = run_on("gmlake:fragLimit=2MiB", p.build());
  EXPECT_EQ(outcome.result.device_frees, 5u);
  EXPECT_EQ(count(outcome, "cuMemUnmap"), 2 + (30 + 20 + 20 + 30) / 2u);
  EXPECT_EQ(count(outcome, "cuMemAddressFree"), 2 + 4u);
  EXPECT_EQ(count(outcome, "cudaFree"), 1u);
}

TEST(GmLake, MemoryUnderTheUntakenPartOfAStitchedBlockStays) {
  ProgramBuilder p;
  free_blocks(p, {20, 20, 20});
  p.free(p.alloc(60 * kMiB));
  const uint32_t part = p.alloc(40 * kMiB);
  p.empty_cache();
  p.alloc(20 * kMiB);  // is still there
  p.free(part);
  p.empty_cache();
  const Outcome outcome = run_on("gmlake:fragLimit=2MiB", p.build());
  EXPECT_EQ(outcome.result.device_allocs, 3u);
  EXPECT_EQ(outcome.result.device_frees, 2u);
}

TEST(GmLake, DefragLevelSaysWhenToStitch) {
  ProgramBuilder p;
  free_blocks(p, {30, 20});
  p.alloc(50 * kMiB);
  const Program program = p.build();
  const ReplayOptions roomy = capacity(100 * kMiB);
  const ReplayOptions tight = capacity(98 * kMiB);
  EXPECT_EQ(run_on("gmlake:fragLimit=2MiB", program, roomy).calls, maps({30, 20}));
  EXPECT_EQ(run_on("gmlake:fragLimit=2MiB,defragLevel=1", program, roomy).calls,
            maps({30, 20, 50}));
  const Outcome second = run_on("gmlake:fragLimit=2MiB,defragLevel=1", program, tight);
  EXPECT_EQ(second.calls, maps({30, 20}));
  EXPECT_EQ(second.result.retries, 0u);
  const Outcome last = run_on("gmlake:fragLimit=2MiB,defragLevel=2", program, tight);
  EXPECT_EQ(last.calls, (Calls{{Kind::kMap, 30 * kMiB},
                               {Kind::kMap, 20 * kMiB},
                               {Kind::kUnmap, 20 * kMiB},
                               {Kind::kUnmap, 30 * kMiB},
                               {Kind::kMap, 50 * kMiB}}));
  EXPECT_EQ(last.result.retries, 1u);
}

// Of 60 MiB 20 are pending, 10 free, and the rest keeps their segments from going back.
TEST(GmLake, TheLastResortIsToStitchWhatTheDeviceWasWaitedFor) {
  for (const bool is_pending : {true, false}) {
    ProgramBuilder p;
    free_blocks(p, {40, 20});
    const uint32_t ten = p.alloc(10 * kMiB);
    p.alloc(10 * kMiB);
    const uint32_t twenty = p.alloc(20 * kMiB);
    p.alloc(20 * kMiB);
    p.free(ten);
    if (is_pending) p.free_later(twenty);
    p.alloc(30 * kMiB);
    const Outcome outcome = run_on("gmlake:fragLimit=2MiB", p.build(), capacity(60 * kMiB));
    EXPECT_EQ(outcome.result.completed, is_pending);
    EXPECT_EQ(outcome.result.retries, 1u);
    EXPECT_EQ(stitched_bytes(outcome), is_pending ? 30 * kMiB : 0);
    if (!is_pending) {
      EXPECT_EQ(outcome.result.oom->largest_free_bytes, 10 * kMiB);
    }
  }
}

TEST(GmLake, EveryFreeRecordsAnEvent) {
  ProgramBuilder p;
  free_blocks(p, {30, 20});
  p.free(p.alloc(512));
  const uint32_t shared = p.alloc(20 * kMiB);
  p.free_later(shared);
  p.complete(shared);
  EXPECT_EQ(count(run_on("gmlake", p.build()), "cudaEventRecord"), 3u);
}

TEST(GmLake, SettingsAreThoseOfTheEnvironment) {
  const AllocatorSpec spec =
      parse_spec("gmlake:fragLimit=268435456,reuseLimit=1.5,defragLevel=1,autoGC=10000").value();
  const GmLakeSettings settings = parse_gmlake_settings(spec.settings).value();
  EXPECT_EQ(settings.frag_limit_bytes, 256 * kMiB);
  EXPECT_EQ(settings.reuse_limit, 1.5);
  EXPECT_EQ(settings.defrag_level, 1u);
  EXPECT_EQ(settings.auto_gc_bytes, 10'000 * kGiB);
}

TEST(GmLake, BadSettingsNameTheGoodOnes) {
  expect_refused(
      {"gmlake:fragLimit=much", "gmlake:reuseLimit=0", "gmlake:reuseLimit=x",
       "gmlake:defragLevel=3", "gmlake:autoGC=-1", "gmlake:autoGC=1000000000000", "gmlake:frag=1"},
      "gmlake: fragLimit=SIZE");
}

}  // namespace
}  // namespace vram::replay
