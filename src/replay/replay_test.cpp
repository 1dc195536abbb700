#include "replay/replay.hpp"

#include "base/bytes.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/testing/builders.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

namespace vram::replay {
namespace {

AllocatorSpec spec(std::string_view text) { return parse_spec(text).value(); }

ReplayResult replayed(const Program& program, std::string_view text, uint64_t capacity_bytes) {
  return replay(program, spec(text), {.capacity_bytes = capacity_bytes}).value();
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
      EXPECT_EQ(result.layouts_tried, 9u);
      EXPECT_LE(result.layouts_completed, result.layouts_tried);
      EXPECT_EQ(result.completed, result.layouts_completed > 0);
      EXPECT_EQ(result.completed, !result.oom.has_value());
      divided += result.completed && result.layouts_completed < result.layouts_tried;
    }
  }
  EXPECT_GT(divided, 0) << "no case in which addresses decided";
}

TEST(Replay, RecordedAddressesCountIfNothingIsReleased) {
  Program program = fragmenting_program(1);
  EXPECT_EQ(replayed(program, "torch", 4000 * kMiB).layouts_tried, 9u);
  program.recorded_calls.push_back({.kind = DriverCall::Kind::kAlloc, .size_bytes = 3 * kMiB});
  EXPECT_EQ(replayed(program, "torch", 4000 * kMiB).layouts_tried, 1u);
  EXPECT_EQ(replayed(program, "torch", 900 * kMiB).layouts_tried, 9u);
}

// Also where the replay makes the same calls.
TEST(Replay, AddressesOfADryRunAreAsGoodAsAnyOthers) {
  Program program = fragmenting_program(1);
  const Peer& torch = *find_peer("torch");
  const AllocatorSpec spec = parse_spec("torch").value();
  (void)run(program, torch, spec, {}, &program.recorded_calls);
  EXPECT_EQ(replayed(program, "torch", 4000 * kMiB).layouts_tried, 1u);
  program.has_assumed_addresses = true;
  EXPECT_EQ(replayed(program, "torch", 4000 * kMiB).layouts_tried, 9u);
  ReplayOptions other;
  other.address_layout = 1;
  std::vector<DriverCall> calls;
  (void)run(program, torch, spec, other, &calls);
  ASSERT_FALSE(calls.empty());
  EXPECT_NE(calls.front().address, program.recorded_calls.front().address);
  const ReplayResult first = run(program, torch, spec, {}, &calls);
  EXPECT_EQ(calls, program.recorded_calls) << "the first layout is that of the dry run";
  EXPECT_EQ(first.matched_calls, calls.size());
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

using testing::HasSubstr;

TorchSettings settings_of(std::string_view text) {
  return parse_torch_settings(parse_spec(text).value().settings).value();
}

TEST(Spec, TakesEveryTorchSettingInBothSpellings) {
  const TorchSettings torch = settings_of(
      "torch:max_split_size_mb=128,max_non_split_rounding_mb:64,garbage_collection_threshold=0.8,"
      "large_segment_size_mb=40,per_process_memory_fraction=0.5,expandable_segments:True,"
      "roundup_power2_divisions=4");
  EXPECT_EQ(torch.max_split_bytes, 128 * kMiB);
  EXPECT_EQ(torch.max_non_split_rounding_bytes, 64 * kMiB);
  EXPECT_EQ(torch.garbage_collection_threshold, 0.8);
  EXPECT_EQ(torch.large_segment_bytes, 40 * kMiB);
  EXPECT_EQ(torch.memory_fraction, 0.5);
  EXPECT_TRUE(torch.expandable_segments);
  EXPECT_EQ(torch.divisions[0], 4u);
  EXPECT_EQ(torch.divisions[15], 4u);
}

TEST(Spec, ReadsListsOfDivisionsAsPyTorchDoes) {
  const TorchSettings torch =
      settings_of("torch:roundup_power2_divisions=[256:1,512:2,2048:8,>:4],max_split_size_mb=64");
  EXPECT_EQ(torch.divisions,
            (std::array<uint64_t, 16>{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 0, 8, 4, 4, 4, 4}));
  EXPECT_EQ(torch.max_split_bytes, 64 * kMiB);
}

TEST(Spec, IntervalsThatAListLeavesOutAreNotRounded) {
  const TorchRules rules(settings_of("torch:roundup_power2_divisions=[256:4,1024:4]"));
  EXPECT_EQ(rules.round(600 * kMiB + 1), 600 * kMiB + 512);
  EXPECT_EQ(rules.round(300 * kMiB + 1), 320 * kMiB);
  EXPECT_EQ(rules.round(1100 * kMiB + 1), 1280 * kMiB);
  EXPECT_EQ(rules.round(65 * kMiB), 80 * kMiB) << "the first entry holds below it, too";
}

TEST(Spec, WritesWhatItRead) {
  const std::string text = "torch:max_split_size_mb=128,roundup_power2_divisions=[256:1,>:4]";
  EXPECT_EQ(parse_spec(text).value().to_string(), text);
  EXPECT_EQ(parse_spec("torch").value().to_string(), "torch");
}

TEST(Spec, ErrorsListWhatIsValid) {
  EXPECT_THAT(parse_spec("torhc").error().message, HasSubstr("known: torch"));
  for (const char* text :
       {"torch:max_split=1", "torch:max_split_size_mb=20", "torch:max_split_size_mb=64k",
        "torch:garbage_collection_threshold=1.5", "torch:expandable_segments=maybe",
        "torch:roundup_power2_divisions=3", "torch:roundup_power2_divisions=[256:2",
        "torch:roundup_power2_divisions=[300:2]", "torch:large_segment_size_mb=21", "torch:x",
        "torch:per_process_memory_fraction=0"}) {
    const auto spec = parse_spec(text);
    ASSERT_FALSE(spec) << text;
    for (const PeerKey& key : torch_keys()) {
      EXPECT_THAT(spec.error().message, HasSubstr(std::string(key.name)));
    }
  }
}

TEST(Spec, RecordedSettingsComeBack) {
  trace::Trace trace;
  trace.settings = {
      {"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128,max_non_split_rounding_mb:30"},
      {"max_split_size", "134217728"},
      {"garbage_collection_threshold", "0.0"},
      {"expandable_segments", "False"},
      {"roundup_power2_divisions.1", "0"},
      {"roundup_power2_divisions.256", "4"}};
  const AllocatorSpec spec = recorded_spec(trace);
  const TorchSettings torch = parse_torch_settings(spec.settings).value();
  EXPECT_EQ(torch.max_split_bytes, 128 * kMiB);
  EXPECT_EQ(torch.max_non_split_rounding_bytes, 30 * kMiB);
  EXPECT_EQ(torch.divisions[7], 0u);
  EXPECT_EQ(torch.divisions[8], 4u);
  EXPECT_EQ(torch.divisions[9], 0u);
  EXPECT_EQ(recorded_spec(trace::Trace{}).to_string(), "torch");
}

TEST(Spec, RecordedNonsenseCountsAsTheDefaults) {
  trace::Trace trace;
  EXPECT_FALSE(recorded_torch(trace).expandable_segments);
  trace.settings = {{"max_split_size", "18446744073709551615"},
                    {"garbage_collection_threshold", "0.8"}};
  EXPECT_FALSE(recorded_torch(trace).has_max_split());
  EXPECT_DOUBLE_EQ(recorded_torch(trace).garbage_collection_threshold, 0.8);
  trace.settings = {{"max_split_size", "-1"}, {"garbage_collection_threshold", "lots"}};
  EXPECT_FALSE(recorded_torch(trace).has_max_split());
  EXPECT_DOUBLE_EQ(recorded_torch(trace).garbage_collection_threshold, 0);
}

TEST(TorchRules, RoundToDivisionsOfPowersOfTwo) {
  TorchSettings settings;
  settings.divisions.fill(4);
  const TorchRules rules(settings);
  EXPECT_EQ(rules.round(1), 512u);
  EXPECT_EQ(rules.round(1200), 1536u);  // at most 512 * 4: in steps of 512
  EXPECT_EQ(rules.round(1200 * kMiB), 1280 * kMiB);
  EXPECT_EQ(rules.round(1024 * kMiB), 1024 * kMiB);
  EXPECT_EQ(rules.round(1025 * kMiB), 1280 * kMiB);
}

}  // namespace
}  // namespace vram::replay
