// What every modelled allocator does with requests at the edges, and with a recording's own
// segments.
#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

namespace vram::replay {
namespace {

class ModelEdges : public testing::TestWithParam<const char*> {};

TEST_P(ModelEdges, NothingIsServedWithoutMemory) {
  ProgramBuilder p;
  p.free(p.alloc(0));
  const uint32_t later = p.alloc(0);
  p.free_later(later);
  p.complete(later);
  const Outcome outcome = run_on(GetParam(), p.build());
  EXPECT_TRUE(outcome.result.completed);
  EXPECT_EQ(outcome.calls, Calls{});
  EXPECT_EQ(outcome.result.peak_reserved_bytes, 0u);
}

TEST_P(ModelEdges, MoreThanAnyDeviceHasIsAnOom) {
  for (const uint64_t bytes : {uint64_t{1} << 47, uint64_t{1} << 62, ~uint64_t{0}}) {
    ProgramBuilder p;
    p.alloc(bytes);
    const Outcome outcome = run_on(GetParam(), p.build());
    EXPECT_FALSE(outcome.result.completed);
    EXPECT_EQ(outcome.result.oom->event, 0u);
    EXPECT_EQ(outcome.result.peak_reserved_bytes, 0u);
  }
}

TEST_P(ModelEdges, MoreThanThisDeviceHasIsAnOom) {
  ProgramBuilder p;
  p.alloc(kMiB);
  p.alloc(65 * kMiB);
  const Outcome outcome = run_on(GetParam(), p.build(), capacity(64 * kMiB));
  EXPECT_FALSE(outcome.result.completed);
  EXPECT_EQ(outcome.result.oom->event, 1u);
  EXPECT_EQ(outcome.result.oom->allocated_bytes, kMiB);
}

TEST_P(ModelEdges, ALimitHoldsWhereTheDeviceIsLarger) {
  ProgramBuilder p;
  p.alloc(40 * kMiB);
  p.alloc(40 * kMiB);
  const Program program = p.build();
  ReplayOptions options = capacity(64 * kMiB);
  options.capacity_is_fraction = true;
  EXPECT_FALSE(run_on(GetParam(), program, options).result.completed);
  options.capacity_bytes = 256 * kMiB;
  EXPECT_TRUE(run_on(GetParam(), program, options).result.completed);
}

TEST_P(ModelEdges, SegmentsOfTheRecordedAllocatorAreNotItsOwn) {
  ProgramBuilder p;
  p.initial_segment({.address = uint64_t{1} << 40, .size_bytes = 20 * kMiB});
  p.alloc(16 * kMiB);
  const Outcome outcome = run_on(GetParam(), p.build());
  EXPECT_EQ(outcome.result.device_allocs, 1u);
  EXPECT_EQ(outcome.result.peak_reserved_bytes, 16 * kMiB);
}

TEST_P(ModelEdges, APendingBlockIsInUseUntilItsCompletion) {
  ProgramBuilder p;
  const uint32_t first = p.alloc(16 * kMiB);
  p.free_later(first);
  const uint32_t second = p.alloc(16 * kMiB);  // next to it
  p.complete(first);
  p.alloc(16 * kMiB);  // in its place
  p.free(second);
  const Outcome outcome = run_on(GetParam(), p.build());
  EXPECT_EQ(outcome.result.device_allocs, 2u);
  EXPECT_EQ(outcome.result.peak_active_bytes, 32 * kMiB);
}

INSTANTIATE_TEST_SUITE_P(Models, ModelEdges,
                         testing::Values("cupy", "rmm_pool", "tf_bfc", "gmlake"));

}  // namespace
}  // namespace vram::replay
