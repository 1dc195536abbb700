// The rules of PyTorch's expandable segments, one at a time, by programs whose driver calls are
// known by hand.
#include "base/bytes.hpp"
#include "replay/testing/program_builder.hpp"
#include "replay/testing/run_on.hpp"

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
