#include "replay/replay.hpp"

#include "base/bytes.hpp"
#include "replay/testing/program_builder.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

namespace vram::replay {
namespace {

AllocatorSpec spec(std::string_view text) { return parse_spec(text).value(); }

ReplayResult replayed(const Program& program, std::string_view text, uint64_t capacity_bytes) {
  ReplayOptions options;
  options.capacity_bytes = capacity_bytes;
  return replay(program, spec(text), options).value();
}

// Tensors of sizes that change from step to step, of which some stay: what one step leaves fits the
// next one badly, and which of several equal blocks is taken decides which segments can go back.
Program fragmenting_program(uint64_t seed) {
  std::mt19937_64 random(seed);
  ProgramBuilder p;
  std::vector<uint32_t> kept;
  for (int step = 0; step < 20; ++step) {
    std::vector<uint32_t> live;
    const uint64_t unit = 2 + random() % 5;
    for (int i = 0; i < 40; ++i) live.push_back(p.alloc((1 + random() % 6) * unit * kMiB));
    while (live.size() > 2) {
      const size_t i = random() % live.size();
      p.free(live[i]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
    }
    kept.insert(kept.end(), live.begin(), live.end());
    while (kept.size() > 10) {
      p.free(kept.front());
      kept.erase(kept.begin());
    }
  }
  return p.build();
}

TEST(Replay, TriesOtherAddressesWhereTheyMayDecide) {
  int divided = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Program program = fragmenting_program(seed);
    for (uint64_t capacity = 800; capacity <= 1500; capacity += 20) {
      const ReplayResult result = replayed(program, "torch", capacity * kMiB);
      EXPECT_EQ(result.layouts_tried, result.device_frees > 0 ? 9u : 1u);
      EXPECT_LE(result.layouts_completed, result.layouts_tried);
      EXPECT_EQ(result.completed, result.layouts_completed > 0);
      EXPECT_EQ(result.completed, !result.oom.has_value());
      divided += result.completed && result.layouts_completed < result.layouts_tried;
    }
  }
  EXPECT_GT(divided, 0) << "no case in which addresses decided";
}

TEST(Replay, AddressesDecideNothingForExpandableSegmentsNorWithoutALimit) {
  const Program program = fragmenting_program(1);
  EXPECT_EQ(replayed(program, "torch:expandable_segments=True", 800 * kMiB).layouts_tried, 1u);
  const ReplayResult free = replay(program, spec("torch"), {}).value();
  EXPECT_EQ(free.layouts_tried, 1u);
  EXPECT_EQ(free.layouts_completed, 1u);
}

TEST(Replay, TheSameEachTime) {
  const Program program = fragmenting_program(2);
  const ReplayResult a = replayed(program, "torch", 900 * kMiB);
  const ReplayResult b = replayed(program, "torch", 900 * kMiB);
  EXPECT_EQ(a.layouts_completed, b.layouts_completed);
  EXPECT_EQ(a.peak_reserved_bytes, b.peak_reserved_bytes);
  EXPECT_EQ(a.device_allocs, b.device_allocs);
}

TEST(Replay, AnUnknownAllocatorIsAnErrorThatListsTheKnown) {
  const auto result = replay(Program{}, {.name = "jemalloc", .settings = {}}, {});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("torch"), std::string::npos);
}

}  // namespace
}  // namespace vram::replay
