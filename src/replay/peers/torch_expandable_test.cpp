// The rules of PyTorch's expandable segments, one at a time, by programs whose driver calls are
// known by hand.
#include "base/bytes.hpp"
#include "replay/testing/program_builder.hpp"

#include <gtest/gtest.h>

#include <random>

namespace vram::replay {
namespace {

using Kind = DriverCall::Kind;

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
  ReplayOptions options = capacity(12 * kGiB);
  options.capacity_is_fraction = true;
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
