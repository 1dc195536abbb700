#include "replay/capacity.hpp"

#include "base/bytes.hpp"
#include "replay/testing/program_builder.hpp"

#include <gtest/gtest.h>

namespace vram::replay {
namespace {

std::optional<MinCapacity> search(std::string_view spec, const Program& program) {
  return find_min_capacity(program, *find_peer("torch"), parse_spec(spec).value(), {});
}

// 40 MiB cached, then 60: with less than both, a retry gives the 40 back.
TEST(Capacity, FindsTheSmallestAndWhatItCosts) {
  ProgramBuilder p;
  p.free(p.alloc(40 * kMiB));
  p.alloc(60 * kMiB);
  const auto found = search("torch", p.build());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->capacity_bytes, 60 * kMiB);
  EXPECT_EQ(found->retries, 1u);
}

// What a device holds counts, not the segment that a memory fraction would be compared with: 40 MiB
// grow to 60.
TEST(Capacity, ExpandableSegmentsNeedRoomForWhatTheyMap) {
  ProgramBuilder p;
  p.free(p.alloc(40 * kMiB));
  p.alloc(60 * kMiB);
  const Program program = p.build();
  const auto found = search("torch:expandable_segments=True", program);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->capacity_bytes, 60 * kMiB);
  EXPECT_EQ(found->retries, 0u);
  ReplayOptions of_recording;
  of_recording.capacity_is_fraction = true;
  const auto also =
      find_min_capacity(program, *find_peer("torch"),
                        parse_spec("torch:expandable_segments=True").value(), of_recording);
  ASSERT_TRUE(also);
  EXPECT_EQ(also->retries, 0u) << "the answer is about a device";
}

TEST(Capacity, TheAnswerCompletesAndTwoMebibytesLessDoNot) {
  ProgramBuilder p;
  std::vector<uint32_t> live;
  for (uint64_t i = 0; i < 400; ++i) {
    live.push_back(p.alloc((i * 7919 % 97 + 1) * 400'000));
    if (i % 3 != 0) {
      std::swap(live[i * 31 % live.size()], live.back());
      p.free(live.back());
      live.pop_back();
    }
    if (live.size() > 20) {
      p.free(live.front());
      live.erase(live.begin());
    }
  }
  const Program program = p.build();
  for (const char* spec : {"torch", "torch:expandable_segments=True"}) {
    const auto found = search(spec, program);
    ASSERT_TRUE(found);
    ReplayOptions options;
    options.capacity_bytes = found->capacity_bytes;
    const ReplayResult enough = replay(program, parse_spec(spec).value(), options).value();
    EXPECT_TRUE(enough.completed);
    EXPECT_EQ(enough.retries, found->retries);
    options.capacity_bytes = found->capacity_bytes - 2 * kMiB;
    EXPECT_FALSE(replay(program, parse_spec(spec).value(), options).value().completed);
  }
}

TEST(Capacity, ComesWithTheReplayWhenAskedFor) {
  ProgramBuilder p;
  p.alloc(30 * kMiB);
  ReplayOptions options;
  options.search_min_capacity = true;
  options.curve_slices = 10;
  const ReplayResult result = replay(p.build(), {"torch", {}}, options).value();
  EXPECT_EQ(result.min_capacity_bytes, 30 * kMiB);
  EXPECT_EQ(result.min_capacity_retries, 0u);
  EXPECT_FALSE(replay(Program{}, {"nothing", {}}, {}));
  EXPECT_FALSE(replay(Program{}, {"torch", {{"no_such_key", "1"}}}, {}));
}

}  // namespace
}  // namespace vram::replay
