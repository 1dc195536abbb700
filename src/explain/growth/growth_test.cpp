// size: one subject: jobs with a leak, and those without
#include "explain/growth/growth.hpp"

#include "explain/steps/steps.hpp"
#include "explain/testing/growth.hpp"
#include "explain/testing/trace_builder.hpp"
#include "explain/testing/zoo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace vram::explain {
namespace {

using testing::growth_of;
using testing::Job;
using testing::Made;
using testing::record;

std::vector<Growth> leaks_of(const Made& made) {
  std::vector<Growth> growth = growth_of(made);
  std::erase_if(growth, [](const Growth& g) { return g.kind != GrowthKind::kLeak; });
  return growth;
}

uint64_t peak_of(const Made& made) {
  uint64_t live = 0;
  uint64_t peak = 0;
  for (const trace::Event& e : made.trace.events) {
    if (e.kind == trace::EventKind::kAlloc) live += e.size_bytes;
    if (e.kind == trace::EventKind::kFreeCompleted) live -= e.size_bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

// The habits of jobs that do not leak.
std::vector<Job> steady_jobs() {
  return {
      {.steps = 10},
      {.steps = 40},
      {.steps = 20, .variable_length = true},
      {.steps = 12, .accumulation = 4},
      {.steps = 30, .evaluate_every = 5},
      {.steps = 40, .cached_shapes = 6},
      {.steps = 60, .variable_length = true, .cached_shapes = 15},
      {.steps = 40, .collect_every = 7},
      {.steps = 24, .collect_every = 3},
      {.steps = 40, .last_losses = 10},
      {.steps = 12, .generated_tokens = 30},
      {.steps = 25,
       .variable_length = true,
       .evaluate_every = 4,
       .cached_shapes = 5,
       .collect_every = 5},
  };
}

TEST(Growth, FindsALeakOfAThousandthOfThePeakWithinTenSteps) {
  int planted = 0;
  int found = 0;
  for (uint32_t seed = 1; seed <= 25; ++seed) {
    for (const bool annotated : {true, false}) {
      for (const bool variable : {true, false}) {
        Job job = {.seed = seed, .steps = 10, .annotated = annotated, .variable_length = variable};
        job.leak_bytes = peak_of(record(job)) / 1000;
        ++planted;
        const std::vector<Growth> leaks = leaks_of(record(job));
        if (leaks.size() == 1 &&
            std::abs(leaks[0].bytes_per_step - static_cast<double>(job.leak_bytes)) < 1)
          ++found;
      }
    }
  }
  EXPECT_GE(found, planted * 99 / 100) << "of " << planted;
}

TEST(Growth, FindsLeaksBesideEveryHabit) {
  int planted = 0;
  int found = 0;
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    for (Job job : steady_jobs()) {
      job.seed = seed;
      job.steps = std::max(job.steps, 20U);
      job.leak_bytes = peak_of(record(job)) / 1000;
      ++planted;
      if (!leaks_of(record(job)).empty()) ++found;
    }
  }
  EXPECT_GE(found, planted * 99 / 100) << "of " << planted;
}

TEST(Growth, IsSilentOnJobsThatDoNotLeak) {
  int jobs = 0;
  int alarms = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    for (const bool annotated : {true, false}) {
      for (Job job : steady_jobs()) {
        job.seed = seed;
        job.annotated = annotated;
        ++jobs;
        const std::vector<Growth> leaks = leaks_of(record(job));
        if (leaks.empty()) continue;
        ++alarms;
        std::printf("false alarm: seed %u steps %u: %s\n", seed, job.steps, leaks[0].site.c_str());
      }
    }
  }
  EXPECT_LE(alarms, jobs / 100) << "of " << jobs;
}

TEST(Growth, AnotherBlockOfItsSizeDoesNotHideALeak) {
  const auto leaks = leaks_of(record(
      {.steps = 60, .annotated = true, .leak_bytes = 30'000, .leak_from = 4, .long_lived = true}));
  ASSERT_EQ(leaks.size(), 1u);
  EXPECT_NEAR(leaks.front().bytes_per_step, 30'000, 1'500);
}

TEST(Growth, LeaksOfEveryThirdStepCount) {
  const std::vector<Growth> leaks =
      leaks_of(record({.steps = 30, .leak_bytes = 30'000, .leak_every = 3}));
  ASSERT_EQ(leaks.size(), 1U);
  EXPECT_NEAR(leaks[0].bytes_per_step, 10'000, 1500);
  EXPECT_EQ(leaks[0].birth_steps, 9U);  // of ten, without the warm-up's
}

TEST(Growth, NamesTheLineThatKeeps) {
  const std::vector<Growth> leaks =
      leaks_of(record({.steps = 20, .annotated = true, .leak_bytes = 5000, .has_stacks = true}));
  ASSERT_EQ(leaks.size(), 1U);
  EXPECT_EQ(leaks[0].site, "train.py:42 hook");
  ASSERT_EQ(leaks[0].stack.size(), 3U);
  EXPECT_EQ(leaks[0].stack[0].function, "mean");
}

TEST(Growth, TellsOptimizerStateAsOneOff) {
  // A step region of its own makes the first step begin after the weights are there.
  testing::TraceBuilder b;
  b.alloc(1 << 20);
  for (int i = 0; i < 10; ++i) {
    b.begin("step");
    b.temporary(2 << 20);
    if (i == 0) b.alloc(3 << 20);
    b.end("step");
  }
  const std::vector<Growth> growth = growth_of(b.build());
  ASSERT_EQ(growth.size(), 1U);
  EXPECT_EQ(growth[0].kind, GrowthKind::kOneOff);
  EXPECT_EQ(growth[0].live_bytes, 3U << 20);
  EXPECT_EQ(growth[0].bytes_per_step, 0);
}

TEST(Growth, TellsACacheThatFilledAsBounded) {
  testing::TraceBuilder b;
  for (int i = 0; i < 30; ++i) {
    b.begin("step");
    b.temporary(2 << 20);
    if (i < 10 && i % 2 == 0) b.alloc(1 << 18);
    b.end("step");
  }
  const std::vector<Growth> growth = growth_of(b.build());
  ASSERT_EQ(growth.size(), 1U);
  EXPECT_EQ(growth[0].kind, GrowthKind::kBoundedCache);
}

// One block more every sixth step, until `last`: the state of layers that are unfrozen.
Made with_unfreezing(uint32_t steps, uint32_t last) {
  testing::TraceBuilder b;
  for (uint32_t i = 0; i < steps; ++i) {
    b.begin("step");
    b.temporary(2 << 20);
    if (i % 6 == 0 && i <= last) b.alloc(1 << 18);
    b.end("step");
  }
  return b.build();
}

TEST(Growth, ARhythmThatEndedIsNoLeak) {
  const auto kind_of = [](const Made& made) {
    const std::vector<Growth> growth = growth_of(made);
    return growth.size() == 1 ? std::optional(growth[0].kind) : std::nullopt;
  };
  EXPECT_EQ(kind_of(with_unfreezing(60, 59)), GrowthKind::kLeak);
  EXPECT_EQ(kind_of(with_unfreezing(60, 48)), GrowthKind::kUndecided) << "one is missing";
  EXPECT_EQ(kind_of(with_unfreezing(60, 42)), GrowthKind::kBoundedCache) << "two are";
}

TEST(Growth, JoinsTheSizesOfOneLeak) {
  testing::TraceBuilder b;
  for (int i = 0; i < 20; ++i) {
    b.begin("step");
    b.temporary(2 << 20);
    if (i % 2 == 0) {
      for (const uint64_t size : {10'000, 20'000, 30'000}) b.alloc(size);
    }
    b.end("step");
  }
  const std::vector<Growth> leaks = leaks_of(b.build());
  ASSERT_EQ(leaks.size(), 1U);
  EXPECT_NEAR(leaks[0].bytes_per_step, 30'000, 1000);
  EXPECT_NE(leaks[0].site.find("3 sizes"), std::string::npos) << leaks[0].site;
}

TEST(Growth, KeepsLeaksOfDifferentRhythmApart) {
  testing::TraceBuilder b;
  for (int i = 0; i < 30; ++i) {
    b.begin("step");
    b.temporary(2 << 20);
    b.alloc(4000);
    if (i % 3 == 0) b.alloc(90'000);
    b.end("step");
  }
  const std::vector<Growth> leaks = leaks_of(b.build());
  ASSERT_EQ(leaks.size(), 2U);
  EXPECT_NEAR(leaks[0].bytes_per_step, 30'000, 3000);
  EXPECT_NEAR(leaks[1].bytes_per_step, 4000, 1);
}

TEST(Growth, JoinsTheLayersOfAKeptGraphUnderTheLineThatKeepsIt) {
  testing::TraceBuilder b;
  std::vector<trace::StackId> layers;
  for (uint32_t i = 0; i < 6; ++i) {
    layers.push_back(b.stack({{"/w/site-packages/torch/nn/functional.py", 3, "linear"},
                              {"/home/me/model.py", 10 + i, "forward"},
                              {"/home/me/train.py", 77, "validate"},
                              {"/home/me/train.py", 7, "main"}}));
  }
  for (int i = 0; i < 20; ++i) {
    b.begin("step");
    b.temporary(2 << 20);
    for (const trace::StackId layer : layers) b.alloc(10'000, layer);
    b.end("step");
  }
  const std::vector<Growth> leaks = leaks_of(b.build());
  ASSERT_EQ(leaks.size(), 1U);
  EXPECT_EQ(leaks[0].site, "train.py:77 validate");
  EXPECT_NEAR(leaks[0].bytes_per_step, 60'000, 1);
}

TEST(Growth, ALeakOfChangingSizesIsFound) {
  testing::TraceBuilder b;
  for (uint32_t i = 0; i < 30; ++i) {
    b.begin("step");
    b.temporary(2 << 20);
    b.alloc(5000 + 100 * (i * 7 % 30));  // never the same size twice
    b.end("step");
  }
  const std::vector<Growth> leaks = leaks_of(b.build());
  ASSERT_EQ(leaks.size(), 1U);
  EXPECT_NEAR(leaks[0].bytes_per_step, 6450, 200);
}

// A forward pass of `batch` samples whose hook keeps a mean; a kept graph keeps all of it.
uint64_t forward_with_hook(testing::TraceBuilder* b, uint64_t batch, bool is_kept) {
  std::vector<testing::TraceBuilder::Block> blocks;
  uint64_t bytes = 0;
  for (uint64_t layer = 0; layer < 6; ++layer) {
    b->temporary(10'000'000 + batch * batch);  // a workspace
    blocks.push_back(b->alloc(batch * 20'000 * (layer + 1)));
    blocks.push_back(b->alloc(2048));  // does not depend on the batch
    bytes += batch * 20'000 * (layer + 1) + 2048;
  }
  b->alloc(batch * 2048);  // the hook's
  if (!is_kept) b->free_all(&blocks);
  return bytes;
}

TEST(Growth, WhatAHookKeepsInEvaluationsBelongsToItsLeak) {
  testing::TraceBuilder b;
  std::mt19937 random(7);
  uint64_t hook_bytes = 0;
  uint64_t graph_bytes = 0;
  constexpr uint32_t kSteps = 60;
  for (uint32_t i = 0; i < kSteps; ++i) {
    b.begin("step");
    const uint64_t batch = random() % 2 == 0 ? 48 : 64;
    forward_with_hook(&b, batch, false);
    hook_bytes += batch * 2048;
    if (i % 3 == 0) {
      graph_bytes += forward_with_hook(&b, 8, true);
      hook_bytes += uint64_t{8} * 2048;
    }
    b.end("step");
  }
  const std::vector<Growth> leaks = leaks_of(b.build());
  ASSERT_EQ(leaks.size(), 2U);
  const double graph = static_cast<double>(graph_bytes) / kSteps;
  const double hook = static_cast<double>(hook_bytes) / kSteps;
  EXPECT_NEAR(leaks[0].bytes_per_step, graph, 0.03 * graph);
  EXPECT_NEAR(leaks[1].bytes_per_step, hook, 0.02 * hook);
}

// Of two batch sizes one is too rare for a verdict of its own.
TEST(Growth, ARareBatchSizeBelongsToTheLeakOfItsPlace) {
  testing::TraceBuilder b;
  uint64_t bytes = 0;
  constexpr uint32_t kSteps = 30;
  for (uint32_t i = 0; i < kSteps; ++i) {
    b.begin("step");
    const uint64_t batch = i == 5 || i == 9 || i == 10 || i == 20 ? 48 : 64;
    forward_with_hook(&b, batch, false);
    bytes += batch * 2048;
    b.end("step");
  }
  const std::vector<Growth> leaks = leaks_of(b.build());
  ASSERT_EQ(leaks.size(), 1U);
  const double rate = static_cast<double>(bytes) / kSteps;
  EXPECT_NEAR(leaks[0].bytes_per_step, rate, 0.02 * rate);
}

// Seven of eight blocks are small: the median of slopes follows those.
TEST(Growth, RareLargeBlocksOfALeakCountInFull) {
  testing::TraceBuilder b;
  std::mt19937 random(11);
  uint64_t bytes = 0;
  constexpr uint32_t kSteps = 48;
  for (uint32_t i = 0; i < kSteps; ++i) {
    b.begin("step");
    b.temporary(2 << 20);
    const uint64_t size = random() % 8 == 0 ? 65'536 : 4'096;
    bytes += size;
    b.alloc(size, b.stack({{"/home/me/train.py", 42, "hook"}}));
    b.end("step");
  }
  const std::vector<Growth> leaks = leaks_of(b.build());
  ASSERT_EQ(leaks.size(), 1U);
  const double rate = static_cast<double>(bytes) / kSteps;
  EXPECT_NEAR(leaks[0].bytes_per_step, rate, 0.08 * rate);
  EXPECT_LE(leaks[0].bytes_per_step_low, leaks[0].bytes_per_step);
  EXPECT_GE(leaks[0].bytes_per_step_high, leaks[0].bytes_per_step);
}

TEST(Growth, BlocksOfEverNewStreamsAreNoLeakOfOneSite) {
  testing::TraceBuilder b;
  for (uint32_t i = 0; i < 12; ++i) {
    b.begin("step");
    b.temporary(2 << 20);
    if (i % 4 == 0) b.alloc(32 << 20, 0, 0x1000 + i);
    b.end("step");
  }
  EXPECT_TRUE(leaks_of(b.build()).empty());
}

TEST(Growth, WhatGraphsCaptureIsNoLeak) {
  Made made = record({.steps = 20, .annotated = true, .leak_bytes = 5000});
  ASSERT_EQ(leaks_of(made).size(), 1U);
  for (Lifetime& l : made.history.lifetimes) {
    if (l.requested_bytes == 5000) l.pool = 1;
  }
  EXPECT_TRUE(leaks_of(made).empty());
}

TEST(Growth, RecordingsWithoutPoolsHaveLeaks) {
  Made made = record({.steps = 20, .annotated = true, .leak_bytes = 5000});
  for (Lifetime& l : made.history.lifetimes) l.pool = trace::kUnknownPool;
  EXPECT_EQ(leaks_of(made).size(), 1U);
  made.history.lifetimes[0].pool = 1;
  EXPECT_TRUE(leaks_of(made).empty()) << "blocks of an unknown pool may be of a private one";
}

TEST(Growth, NeedsSteps) {
  EXPECT_TRUE(growth_of(record({.steps = 4, .annotated = true, .leak_bytes = 50'000})).empty());
}

// Growth in simulations: programs whose blocks are kept for a known reason, 60 of each.
constexpr uint32_t kRuns = 60;
constexpr uint64_t kKeptBytes = 1 << 18;

// Which steps keep one block more, for ever.
using BirthFlags = std::vector<bool>;
using Program = std::function<BirthFlags(std::mt19937&)>;

bool by_chance(double probability, std::mt19937& random) {
  return std::uniform_real_distribution<double>(0, 1)(random) < probability;
}

// A bounded cache with the lookup of one random key in each step; with Zipf's law the key of rank r
// is asked for in proportion to 1 / r. `filled` look-ups were before the recording.
Program cache(uint32_t steps, uint32_t keys, bool zipf, uint32_t filled = 0) {
  return [=](std::mt19937& random) {
    std::vector<double> weights;
    for (uint32_t k = 0; k < keys; ++k) weights.push_back(zipf ? 1.0 / (k + 1) : 1.0);
    std::discrete_distribution<uint32_t> key(weights.begin(), weights.end());
    std::set<uint32_t> known;
    for (uint32_t i = 0; i < filled; ++i) known.insert(key(random));
    BirthFlags births;
    for (uint32_t i = 0; i < steps; ++i) births.push_back(known.insert(key(random)).second);
    return births;
  };
}

Program every(uint32_t steps, uint32_t k) {
  return [=](std::mt19937& random) {
    const uint32_t phase = static_cast<uint32_t>(random() % k);
    BirthFlags births;
    for (uint32_t i = 0; i < steps; ++i) births.push_back(i % k == phase);
    return births;
  };
}

// In each step with the probability that `rate` gives.
Program at_random(uint32_t steps, const std::function<double(uint32_t)>& rate) {
  return [=](std::mt19937& random) {
    BirthFlags births;
    for (uint32_t i = 0; i < steps; ++i) births.push_back(by_chance(rate(i), random));
    return births;
  };
}

testing::Made run(const BirthFlags& births, std::mt19937& random) {
  testing::TraceBuilder b;
  b.alloc(8 << 20);
  for (size_t i = 0; i < births.size(); ++i) {
    b.begin("step");
    const auto activation = b.alloc((2 << 20) + random() % 4096);
    if (births[i]) b.alloc(kKeptBytes);
    b.free(activation);
    b.end("step");
  }
  return b.build();
}

// How many of kRuns runs leak according to the report.
uint32_t leaks_in(const Program& program) {
  uint32_t leaking = 0;
  for (uint32_t seed = 1; seed <= kRuns; ++seed) {
    std::mt19937 random(seed);
    const BirthFlags births = program(random);
    const testing::Made made = run(births, random);
    const auto growth = growth_of(made);
    leaking +=
        std::ranges::any_of(growth, [](const Growth& g) { return g.kind == GrowthKind::kLeak; })
            ? 1
            : 0;
  }
  return leaking;
}

struct Case {
  const char* name;
  Program program;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

class NoLeak : public ::testing::TestWithParam<Case> {};

TEST_P(NoLeak, IsSaidToLeakInThreeOfSixtyRunsAtMost) {
  EXPECT_LE(leaks_in(GetParam().program), 3U);
}

INSTANTIATE_TEST_SUITE_P(
    Simulated, NoLeak,
    ::testing::Values(
        Case{"Cache20Steps8Keys", cache(20, 8, false)},
        Case{"Cache20Steps12Keys", cache(20, 12, false)},
        Case{"Cache40Steps24KeysZipf", cache(40, 24, true)},
        Case{"Cache80Steps40KeysZipf", cache(80, 40, true)},
        Case{"CacheKnownInPart", cache(40, 24, false, 8)},
        Case{"CacheKnownInPartZipf", cache(60, 24, true, 10)},
        Case{"WarmUpOfSixSteps", at_random(30, [](uint32_t i) { return i < 6 ? 1.0 : 0.0; })},
        Case{"WarmUpOfTwoThirds", at_random(30, [](uint32_t i) { return i < 20 ? 1.0 : 0.0; })},
        Case{"Decaying", at_random(40, [](uint32_t i) { return 0.9 * std::exp(-0.1 * i); })},
        Case{"DecayingSlowly", at_random(60, [](uint32_t i) { return 0.9 * std::exp(-0.05 * i); })},
        Case{"ThreeBirths", at_random(12, [](uint32_t i) { return i == 1 || i == 3 || i == 7; })},
        Case{"Nothing", at_random(30, [](uint32_t) { return 0.0; })}),
    name_of);

class TrueLeak : public ::testing::TestWithParam<Case> {};

TEST_P(TrueLeak, IsFoundInFiftySevenOfSixtyRunsAtLeast) {
  EXPECT_GE(leaks_in(GetParam().program), 57U);
}

// In some of the steps at random looks like a cache until many steps are seen.
INSTANTIATE_TEST_SUITE_P(
    Simulated, TrueLeak,
    ::testing::Values(Case{"EveryStepOf12", every(12, 1)}, Case{"EveryStepOf20", every(20, 1)},
                      Case{"EverySecondOf20", every(20, 2)}, Case{"EveryThirdOf20", every(20, 3)},
                      Case{"EveryFifthOf30", every(30, 5)}, Case{"EveryTenthOf60", every(60, 10)},
                      Case{"NineOfTenSteps", at_random(40, [](uint32_t) { return 0.9; })},
                      Case{"HalfOfTheSteps", at_random(80, [](uint32_t) { return 0.5; })},
                      Case{"ThirtyPercent", at_random(200, [](uint32_t) { return 0.3; })}),
    name_of);

}  // namespace

}  // namespace vram::explain
