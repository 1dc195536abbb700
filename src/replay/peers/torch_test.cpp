// The rules of PyTorch's native allocator, one at a time, by programs whose driver calls are known
// by hand.
#include "base/bytes.hpp"
#include "replay/run.hpp"
#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

#include <random>

namespace vram::replay {
namespace {

using Kind = DriverCall::Kind;

struct NativeOutcome {
  ReplayResult result;
  std::vector<std::pair<Kind, uint64_t>> calls;  // sizes in MiB
};

NativeOutcome run_native(std::string_view spec, const Program& program, uint64_t capacity_mib = 0) {
  ReplayOptions options;
  if (capacity_mib > 0) options.capacity_bytes = capacity_mib * kMiB;
  std::vector<DriverCall> log;
  NativeOutcome outcome{run(program, *find_peer("torch"), parse_spec(spec).value(), options, &log),
                        {}};
  for (const DriverCall& call : log) outcome.calls.emplace_back(call.kind, call.size_bytes / kMiB);
  return outcome;
}

using Calls = std::vector<std::pair<Kind, uint64_t>>;

TEST(TorchNative, SegmentSizesByRequest) {
  ProgramBuilder p;
  p.alloc(1);
  p.alloc(kMiB);      // fits into the first 2 MiB? 512 + 1 MiB do
  p.alloc(kMiB + 1);  // the large pool's
  p.alloc(10 * kMiB - 512);
  p.alloc(10 * kMiB);
  p.alloc(11 * kMiB);
  const NativeOutcome outcome = run_native("torch", p.build());
  EXPECT_EQ(outcome.calls,
            (Calls{{Kind::kAlloc, 2}, {Kind::kAlloc, 20}, {Kind::kAlloc, 10}, {Kind::kAlloc, 12}}));
  EXPECT_EQ(outcome.result.peak_reserved_bytes, 44 * kMiB);
}

TEST(TorchNative, SmallSegmentsComeLargeOnesFromTheSetting) {
  ProgramBuilder p;
  p.alloc(2 * kMiB);
  EXPECT_EQ(run_native("torch:large_segment_size_mb=64", p.build()).calls,
            (Calls{{Kind::kAlloc, 64}}));
}

TEST(TorchNative, StreamsAndPoolsShareNothing) {
  ProgramBuilder p;
  p.free(p.alloc(30 * kMiB, 1));
  p.free(p.alloc(30 * kMiB, 2));
  p.free(p.alloc(30 * kMiB, 1, 4));
  p.alloc(30 * kMiB, 1);
  p.alloc(30 * kMiB, 1, 4);
  EXPECT_EQ(run_native("torch", p.build()).calls.size(), 3u);
}

TEST(TorchNative, OneMebibyteOfRestStaysWithTheBlock) {
  ProgramBuilder p;
  p.free(p.alloc(30 * kMiB));
  const uint32_t block = p.alloc(29 * kMiB);
  p.free(block);
  p.alloc(28 * kMiB);  // leaves 2 MiB
  p.alloc(2 * kMiB);
  const NativeOutcome outcome = run_native("torch", p.build());
  EXPECT_EQ(outcome.calls.size(), 1u);
  EXPECT_EQ(outcome.result.peak_allocated_bytes, 30 * kMiB);
}

TEST(TorchNative, ARetryGivesBackWholeSegmentsAndDoesNotSearchAgain) {
  ProgramBuilder p;
  const uint32_t pending = p.alloc(60 * kMiB);
  const uint32_t kept = p.alloc(4 * kMiB);
  p.free(p.alloc(16 * kMiB));  // shares the 20 MiB segment of `kept`: cannot go back
  p.free_later(pending);
  p.alloc(60 *
          kMiB);  // does not fit; waiting completes `pending`, which is given back and taken again
  p.free(kept);
  const NativeOutcome outcome = run_native("torch", p.build(), 100);
  EXPECT_TRUE(outcome.result.completed);
  EXPECT_EQ(outcome.result.retries, 1u);
  EXPECT_EQ(outcome.calls,
            (Calls{{Kind::kAlloc, 60}, {Kind::kAlloc, 20}, {Kind::kFree, 60}, {Kind::kAlloc, 60}}));
}

TEST(TorchNative, WhatTheWaitFreesInsideASegmentIsNotFoundBySameRequest) {
  ProgramBuilder p;
  const uint32_t low = p.alloc(12 * kMiB);
  p.free(low);
  const uint32_t pending = p.alloc(8 * kMiB);  // a 12 MiB segment, split
  const uint32_t rest = p.alloc(4 * kMiB);
  p.free_later(pending);
  p.alloc(8 * kMiB);  // the 8 MiB become free, but only a new segment is asked for
  p.free(rest);
  const NativeOutcome outcome = run_native("torch", p.build(), 24);
  EXPECT_FALSE(outcome.result.completed);
  ASSERT_TRUE(outcome.result.oom);
  EXPECT_EQ(outcome.result.oom->requested_bytes, 8 * kMiB);
  EXPECT_EQ(outcome.result.oom->event, 5u);
  EXPECT_EQ(outcome.result.oom->largest_free_bytes, 8 * kMiB);
  EXPECT_EQ(outcome.result.retries, 1u);
}

TEST(TorchNative, OversizeBlocksAreKeptForOversizeRequests) {
  ProgramBuilder p;
  p.free(p.alloc(200 * kMiB));
  p.alloc(50 * kMiB);           // below 100: may not take 200
  p.free(p.alloc(150 * kMiB));  // may not either: 200 >= 150 + 20
  p.alloc(190 * kMiB);          // takes the whole 200
  const NativeOutcome outcome = run_native("torch:max_split_size_mb=100", p.build());
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kAlloc, 200}, {Kind::kAlloc, 50}, {Kind::kAlloc, 150}}));
  EXPECT_EQ(outcome.result.peak_allocated_bytes, 250 * kMiB);
}

TEST(TorchNative, MaxSplitReleasesTheSmallestBlockThatSuffices) {
  ProgramBuilder p;
  const uint32_t a = p.alloc(300 * kMiB);
  const uint32_t b = p.alloc(200 * kMiB);
  p.free(a);
  p.free(b);
  p.alloc(160 * kMiB);
  const NativeOutcome outcome = run_native("torch:max_split_size_mb=100", p.build(), 560);
  EXPECT_EQ(
      outcome.calls,
      (Calls{{Kind::kAlloc, 300}, {Kind::kAlloc, 200}, {Kind::kFree, 200}, {Kind::kAlloc, 160}}));
  EXPECT_EQ(outcome.result.retries, 0u);
}

TEST(TorchNative, MaxSplitReleasesTheLargestUntilTheySuffice) {
  ProgramBuilder p;
  const uint32_t a = p.alloc(150 * kMiB);
  const uint32_t b = p.alloc(200 * kMiB);
  const uint32_t c = p.alloc(120 * kMiB);
  for (const uint32_t block : {a, b, c}) p.free(block);
  p.alloc(330 * kMiB);
  const NativeOutcome outcome = run_native("torch:max_split_size_mb=100", p.build(), 480);
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kAlloc, 150},
                                  {Kind::kAlloc, 200},
                                  {Kind::kAlloc, 120},
                                  {Kind::kFree, 200},
                                  {Kind::kFree, 150},
                                  {Kind::kAlloc, 330}}));
}

TEST(TorchNative, GarbageCollectionFreesSegmentsOlderThanTheAverage) {
  ProgramBuilder p;
  p.free(p.alloc(40 * kMiB));  // old
  const uint32_t busy = p.alloc(100 * kMiB);
  p.alloc(200 * kMiB);
  p.free(busy);  // young
  p.alloc(120 * kMiB);
  const Program program = p.build();
  EXPECT_EQ(run_native("torch", program, 600).result.device_frees, 0u);
  const NativeOutcome outcome = run_native("torch:garbage_collection_threshold=0.5", program, 600);
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kAlloc, 40},
                                  {Kind::kAlloc, 100},
                                  {Kind::kAlloc, 200},
                                  {Kind::kFree, 40},
                                  {Kind::kAlloc, 120}}));
}

TEST(TorchNative, EmptyCacheGivesBackWhatIsWholeAndFree) {
  ProgramBuilder p;
  p.free(p.alloc(30 * kMiB));
  p.free(p.alloc(10));
  p.alloc(5 * kMiB);
  p.empty_cache();
  EXPECT_EQ(run_native("torch", p.build()).result.device_frees, 1u);
}

TEST(TorchNative, ARefusedRequestThatIsServedNowDoesNotStay) {
  ProgramBuilder p;
  p.alloc(30 * kMiB);
  p.refused(50 * kMiB);
  p.alloc(50 * kMiB);
  const Program program = p.build();
  const NativeOutcome roomy = run_native("torch", program);
  EXPECT_TRUE(roomy.result.completed);
  EXPECT_EQ(roomy.result.peak_reserved_bytes, 80 * kMiB);
  const NativeOutcome tight = run_native("torch", program, 60);
  EXPECT_FALSE(tight.result.completed);
  EXPECT_EQ(tight.result.oom->event, 2u) << "what the program went on without does not end it";
  EXPECT_EQ(tight.result.caught_ooms, 1u);
  EXPECT_EQ(tight.result.caught_oom->event, 1u);
}

// The cache would make room: 64 MiB are the fraction, 40 of them cached.
TEST(TorchNative, ThrowingAtTheFractionGivesNothingBack) {
  ProgramBuilder p;
  p.free(p.alloc(40 * kMiB));
  p.alloc(50 * kMiB);
  const Program program = p.build();
  const ReplayOptions options{.capacity_bytes = 64 * kMiB, .capacity_is_fraction = true};
  const auto result = [&](std::string_view spec) {
    return run(program, *find_peer("torch"), parse_spec(spec).value(), options);
  };
  EXPECT_TRUE(result("torch").completed);
  EXPECT_EQ(result("torch").retries, 1u);
  const ReplayResult thrown = result("torch:throw_on_cudamalloc_oom=True");
  EXPECT_FALSE(thrown.completed);
  EXPECT_EQ(thrown.retries, 0u);
  EXPECT_EQ(thrown.device_frees, 0u);
}

// The rules of PyTorch's expandable segments, one at a time, by programs whose driver calls are
// known by hand.
constexpr const char* kExpandable = "torch:expandable_segments=True";

TEST(TorchExpandable, ARequestLargerThanTheUsualDeviceIsServedWhereTheDeviceIsLarger) {
  ProgramBuilder p;
  p.alloc(200 * kGiB);
  p.alloc(30 * kMiB);
  const Outcome outcome = run_on(kExpandable, p.build());
  EXPECT_TRUE(outcome.result.completed);
  // The second has a reservation of its own: granules of 20 MiB.
  EXPECT_EQ(outcome.calls, (Calls{{Kind::kMap, 200 * kGiB}, {Kind::kMap, 40 * kMiB}}));
}

TEST(TorchExpandable, ALimitThatNoDeviceHasLeavesAddressesForAllStreams) {
  ProgramBuilder p;
  for (trace::StreamId stream = 0; stream < 3; ++stream) {
    p.alloc(30 * kMiB, stream);
    p.alloc(30 * kKiB, stream);
  }
  const Program program = p.build();
  for (const uint64_t bytes : {uint64_t{1} << 50, uint64_t{1} << 62, ~uint64_t{0}}) {
    ReplayOptions options;
    options.capacity_bytes = bytes;
    EXPECT_TRUE(replay(program, parse_spec(kExpandable).value(), options)->completed) << bytes;
  }
}

// 9 GiB mapped and free again, then 10 asked for.
Program grows_by_a_gibibyte(trace::PoolId pool = 0) {
  ProgramBuilder p;
  p.free(p.alloc(9 * kGiB, 0, pool));
  p.alloc(10 * kGiB, 0, pool);
  return p.build();
}

TEST(TorchExpandable, TheDevicesEndRefusesOnlyWhatDoesNotFit) {
  const Calls grown = {{Kind::kMap, 9000 * kMiB + 220 * kMiB}, {Kind::kMap, 1020 * kMiB}};
  for (const trace::PoolId pool : {trace::PoolId{0}, trace::PoolId{1}}) {
    const Outcome outcome = run_on(kExpandable, grows_by_a_gibibyte(pool), capacity(12 * kGiB));
    EXPECT_TRUE(outcome.result.completed) << pool;
    EXPECT_EQ(outcome.result.retries, 0u) << pool;
    EXPECT_EQ(outcome.calls, grown) << pool;
  }
}

TEST(TorchExpandable, AMemoryFractionIsComparedWithTheWholeSegment) {
  const ReplayOptions options{.capacity_bytes = 12 * kGiB, .capacity_is_fraction = true};
  const Outcome retried = run_on(kExpandable, grows_by_a_gibibyte(), options);
  EXPECT_TRUE(retried.result.completed);
  EXPECT_EQ(retried.result.retries, 1u);
  // A private pool gives nothing back.
  EXPECT_FALSE(run_on(kExpandable, grows_by_a_gibibyte(1), options).result.completed);
  const Outcome by_setting =
      run_on("torch:expandable_segments=True,per_process_memory_fraction=0.75",
             grows_by_a_gibibyte(), capacity(16 * kGiB));
  EXPECT_EQ(by_setting.calls, retried.calls);
}

TEST(TorchExpandable, ARequestLargerThanAnyReservationIsAnOom) {
  for (const uint64_t bytes : {180 * kGiB, uint64_t{1} << 45, uint64_t{1} << 60, ~uint64_t{0}}) {
    ProgramBuilder p;
    p.alloc(30 * kMiB);
    p.alloc(bytes);
    const Outcome outcome = run_on(kExpandable, p.build(), capacity(24 * kGiB));
    ASSERT_FALSE(outcome.result.completed) << bytes;
    EXPECT_EQ(outcome.result.oom->event, 1u) << bytes;
  }
}

// Sizes of damaged recordings, and of programs that ask for what no device has: never a crash, and
// never a simulated device of a size that takes minutes to fill.
TEST(TorchExpandable, AnySizeIsServedOrRefused) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3; ++round) {
    ProgramBuilder p;
    for (int i = 0; i < 30; ++i) {
      const uint32_t block = p.alloc(random() >> (4 + random() % 60), 0, random() % 2 == 0 ? 0 : 1);
      if (random() % 2 == 0) p.free(block);
      p.refused(random() >> (4 + random() % 30));
    }
    const Program program = p.build();
    for (const char* spec :
         {kExpandable, "torch", "torch:expandable_segments=True,roundup_power2_divisions=2"}) {
      static_cast<void>(run_on(spec, program));
      static_cast<void>(run_on(spec, program, capacity(24 * kGiB)));
    }
  }
}

}  // namespace

}  // namespace vram::replay
