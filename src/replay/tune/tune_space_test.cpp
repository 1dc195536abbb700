#include "replay/tune/tune_space.hpp"

#include "base/bytes.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/testing/builders.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::replay {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Program two_clusters() {
  ProgramBuilder p;
  for (uint64_t i = 0; i < 5; ++i) {
    p.alloc((100 + i) * kMiB + 1);
    p.alloc((600 + i) * kMiB + 1);
  }
  return p.build();
}

TEST(TuneSpace, SplitSizesLieOnALadderAndAroundTheProgramsSizes) {
  EXPECT_THAT(split_sizes_mb(two_clusters()),
              ElementsAre(32, 64, 100, 105, 128, 256, 512, 600, 605, 1024));
  ProgramBuilder small;
  small.alloc(20 * kMiB);
  EXPECT_THAT(split_sizes_mb(small.build()), IsEmpty());
}

// A damaged recording's, and one above what the setting takes.
TEST(TuneSpace, SplitSizesAreThoseThatTheSettingTakes) {
  for (const int log2 : {42, 43, 44, 59}) {
    ProgramBuilder p;
    p.alloc(100 * kMiB);
    p.alloc((uint64_t{1} << log2) - kMiB);
    const std::vector<uint64_t> sizes = split_sizes_mb(p.build());
    EXPECT_THAT(sizes, Contains(100)) << log2;
    for (const uint64_t mb : sizes) {
      EXPECT_TRUE(parse_spec("torch:max_split_size_mb=" + std::to_string(mb))) << mb;
    }
  }
}

std::vector<AllocatorSpec> all_of(const TuneSpace& space) {
  std::vector<AllocatorSpec> specs = space.grid();
  for (const AllocatorSpec& spec : space.grid()) {
    for (const AllocatorSpec& next : space.neighbours(spec)) specs.push_back(next);
  }
  return specs;
}

TEST(TuneSpace, EverySpecIsOneThatTheRegistryTakesAndThatActs) {
  for (const bool has_limit : {false, true}) {
    for (const AllocatorSpec& spec : all_of(TuneSpace(two_clusters(), has_limit))) {
      const std::string text = spec.to_string();
      EXPECT_TRUE(parse_spec(text)) << text;
      EXPECT_EQ(normalised(spec), spec) << text;
      const bool splits = !value_of(spec, "max_split_size_mb").empty();
      const bool collects = !value_of(spec, "garbage_collection_threshold").empty();
      EXPECT_FALSE(is_expandable(spec) && (splits || collects)) << text;
      EXPECT_FALSE(collects && !has_limit) << text;
      EXPECT_TRUE(splits || value_of(spec, "max_non_split_rounding_mb").empty()) << text;
      if (!splits || value_of(spec, "large_segment_size_mb").empty()) continue;
      EXPECT_GT(std::stoul(std::string(value_of(spec, "max_split_size_mb"))),
                std::stoul(std::string(value_of(spec, "large_segment_size_mb"))));
    }
  }
}

TEST(TuneSpace, NeighboursDifferInOneKey) {
  const TuneSpace space(two_clusters(), false);
  const AllocatorSpec spec =
      parse_spec("torch:max_split_size_mb=128,roundup_power2_divisions=4").value();
  std::vector<std::string> texts;
  for (const AllocatorSpec& next : space.neighbours(spec)) texts.push_back(next.to_string());
  EXPECT_THAT(texts, Contains("torch:roundup_power2_divisions=4"));
  EXPECT_THAT(texts, Contains("torch:max_split_size_mb=128"));
  EXPECT_THAT(texts,
              Contains("torch:max_split_size_mb=192,roundup_power2_divisions=4"));  // halfway
  EXPECT_THAT(texts, Contains("torch:max_split_size_mb=116,roundup_power2_divisions=4"));
  EXPECT_THAT(texts, Contains("torch:max_split_size_mb=128,max_non_split_rounding_mb=64,"
                              "roundup_power2_divisions=4"));
  EXPECT_THAT(texts, ::testing::Not(Contains(spec.to_string())));
}

TuneCandidate candidate(std::string_view spec, uint64_t reserved_bytes, int64_t time_ns = 0,
                        uint64_t retries = 0) {
  TuneCandidate made{.spec = parse_spec(spec).value(), .result = {}};
  made.result.completed = true;
  made.result.peak_reserved_bytes = reserved_bytes;
  made.result.driver_time_ns = time_ns;
  made.result.retries = retries;
  return made;
}

std::vector<std::string> order_of(std::vector<TuneCandidate> candidates) {
  TuneRank(candidates, 1'000'000'000).sort(candidates);
  std::vector<std::string> names;
  for (const TuneCandidate& each : candidates) names.push_back(each.spec.to_string());
  return names;
}

constexpr const char* kSplit = "torch:max_split_size_mb=128";
constexpr const char* kBoth = "torch:max_split_size_mb=128,roundup_power2_divisions=4";

TEST(TuneRank, ReservedMemoryCountsInStepsOfOnePerCentOfTheSmallest) {
  EXPECT_THAT(order_of({candidate(kBoth, 1000), candidate("torch", 1009), candidate(kSplit, 1011)}),
              ElementsAre("torch", kBoth, kSplit));
}

TEST(TuneRank, ThenTimeThenRetriesThenFewerSettings) {
  constexpr int64_t kMs = 1'000'000;
  EXPECT_THAT(order_of({candidate("torch", 1000, 80 * kMs), candidate(kSplit, 1000, 1 * kMs, 9),
                        candidate(kBoth, 1000, 5 * kMs, 1)}),
              ElementsAre(kBoth, kSplit, "torch"));
  EXPECT_THAT(order_of({candidate(kBoth, 1000, 1 * kMs, 2), candidate("torch", 1000, 9 * kMs, 3)}),
              ElementsAre("torch", kBoth));
}

TEST(TuneRank, WhatOldVersionsKnowComesFirstAmongEquals) {
  EXPECT_THAT(order_of({candidate("torch:large_segment_size_mb=64", 1000),
                        candidate("torch:roundup_power2_divisions=4", 1005)}),
              ElementsAre("torch:roundup_power2_divisions=4", "torch:large_segment_size_mb=64"));
}

TEST(TuneRank, WhatRunsOutRanksByHowFarItGot) {
  TuneCandidate early = candidate("torch", 10);
  early.result.completed = false;
  early.result.oom = ReplayOom{.event = 100};
  TuneCandidate late = candidate(kBoth, 2000);
  late.result.completed = false;
  late.result.oom = ReplayOom{.event = 200};
  EXPECT_THAT(order_of({early, late, candidate(kSplit, 9000)}),
              ElementsAre(kSplit, kBoth, "torch"));
}

TEST(TuneRank, TiersCountUpWhereTheClassChanges) {
  std::vector<TuneCandidate> candidates = {candidate("torch", 1000), candidate(kSplit, 1005),
                                           candidate(kBoth, 1500)};
  TuneRank(candidates, 0).sort(candidates);
  EXPECT_EQ(candidates[0].tier, 0U);
  EXPECT_EQ(candidates[1].tier, 0U);
  EXPECT_EQ(candidates[2].tier, 1U);
}

TEST(PytorchConf, IsWhatPyTorchReads) {
  EXPECT_EQ(pytorch_conf(parse_spec(kBoth).value()),
            "max_split_size_mb:128,roundup_power2_divisions:4");
  EXPECT_EQ(pytorch_conf({.name = "torch", .settings = {}}), "");
  EXPECT_EQ(pytorch_conf({.name = "cupy", .settings = {}}), std::nullopt);
  EXPECT_EQ(pytorch_conf({.name = "cuda_async", .settings = {}}), "backend:cudaMallocAsync");
}

TEST(PytorchConf, NotesSayWhichVersionsKnowASetting) {
  EXPECT_THAT(setting_notes(parse_spec(kBoth).value()), IsEmpty());
  EXPECT_THAT(setting_notes(parse_spec("torch:large_segment_size_mb=64").value()),
              ElementsAre(HasSubstr("2.11")));
  EXPECT_THAT(setting_notes(parse_spec("torch:max_split_size_mb=64,max_non_split_rounding_mb=64,"
                                       "garbage_collection_threshold=0.8")
                                .value()),
              ElementsAre(HasSubstr("2.6"), HasSubstr("set_per_process_memory_fraction")));
}

}  // namespace
}  // namespace vram::replay
