#include "replay/capacity.hpp"

#include "base/bytes.hpp"
#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

#include <random>

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

TEST(Capacity, OfADeviceOfWhichOnlyAShareIsToBeHad) {
  ProgramBuilder p;
  p.alloc(10 * kGiB);
  const Program program = p.build();
  EXPECT_EQ(search("torch:per_process_memory_fraction=0.5", program)->capacity_bytes, 20 * kGiB);
  EXPECT_EQ(search("torch:per_process_memory_fraction=0.1", program)->capacity_bytes, 100 * kGiB);
  EXPECT_FALSE(search("torch:per_process_memory_fraction=0.001", program)) << "no device is larger";
}

// A trace that is written by hand can have its sizes in any order.
TEST(Capacity, OfAChoiceTheLeastRequestCounts) {
  for (const auto& [tried, last] : {std::pair{40 * kMiB, 300 * kMiB}, {300 * kMiB, 40 * kMiB}}) {
    ProgramBuilder p;
    p.alloc(20 * kMiB);
    p.choose(0, {tried}, last);
    const Program program = p.build();
    EXPECT_EQ(peak_live_bytes(program), 60 * kMiB);
    const auto found = search("torch", program);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->capacity_bytes, 60 * kMiB);
  }
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

bool completes(std::string_view spec, const Program& program, uint64_t capacity_bytes) {
  return run(program, *find_peer("torch"), parse_spec(spec).value(),
             {.capacity_bytes = capacity_bytes})
      .completed;
}

// Large tensors and small ones, so that max_split_size decides which blocks serve which.
Program of_two_sizes(uint64_t seed) {
  std::mt19937_64 random(seed);
  ProgramBuilder p;
  std::vector<uint32_t> live;
  for (int i = 0; i < 60; ++i) {
    const bool is_large = random() % 3 == 0;
    live.push_back(p.alloc((is_large ? 40 + random() % 60 : 3 + random() % 17) * kMiB));
    while (live.size() > 6 || random() % 3 == 0) {
      if (live.empty()) break;
      std::swap(live[random() % live.size()], live.back());
      p.free(live.back());
      live.pop_back();
    }
  }
  return p.build();
}

// Against every step from nothing to twice the answer. What a run without a limit has allocated is
// no floor: under max_split_size its blocks are larger than what they are taken for.
TEST(Capacity, IsAStepThatSufficesAboveOneThatDoesNot) {
  int smallest = 0;
  int all = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Program program = of_two_sizes(seed);
    for (const char* spec : {"torch", "torch:max_split_size_mb=32",
                             "torch:max_split_size_mb=64,max_non_split_rounding_mb=1024",
                             "torch:expandable_segments=True"}) {
      SCOPED_TRACE(std::to_string(seed) + " " + spec);
      const auto found = search(spec, program);
      ASSERT_TRUE(found);
      EXPECT_TRUE(completes(spec, program, found->capacity_bytes));
      EXPECT_TRUE(completes(spec, program, found->capacity_bytes + 2 * kMiB));
      EXPECT_FALSE(completes(spec, program, found->capacity_bytes - 2 * kMiB));
      uint64_t least = 0;
      while (!completes(spec, program, least) || !completes(spec, program, least + 2 * kMiB))
        least += 2 * kMiB;
      EXPECT_LE(least, found->capacity_bytes);
      smallest += least == found->capacity_bytes;
      ++all;
    }
  }
  EXPECT_GE(smallest, all * 9 / 10) << "of " << all << " answers so many are the smallest";
}

TEST(Capacity, NeedsNoRoomForWhatTheProgramWentOnWithout) {
  ProgramBuilder p;
  p.alloc(kGiB);
  p.refused(60 * kGiB);
  p.alloc(kGiB);
  EXPECT_EQ(search("torch", p.build())->capacity_bytes, 2 * kGiB);
  ProgramBuilder ended;
  ended.alloc(kGiB);
  ended.refused(60 * kGiB);
  EXPECT_EQ(search("torch", ended.build())->capacity_bytes, 61 * kGiB);
}

TEST(Capacity, ComesWithTheReplayWhenAskedFor) {
  ProgramBuilder p;
  p.alloc(30 * kMiB);
  const ReplayResult result =
      replay(p.build(), {"torch", {}}, {.curve_slices = 10, .search_min_capacity = true}).value();
  EXPECT_EQ(result.min_capacity_bytes, 30 * kMiB);
  EXPECT_EQ(result.min_capacity_retries, 0u);
  EXPECT_FALSE(replay(Program{}, {"nothing", {}}, {}));
  EXPECT_FALSE(replay(Program{}, {"torch", {{"no_such_key", "1"}}}, {}));
}

}  // namespace
}  // namespace vram::replay
