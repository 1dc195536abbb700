#include "explain/steps/steps.hpp"

#include "explain/steps/repetition.hpp"
#include "explain/steps/step_marks.hpp"
#include "explain/testing/zoo.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>

namespace vram::explain {
namespace {

using ::testing::HasSubstr;
using testing::Job;
using testing::Made;
using testing::record;
using testing::TraceBuilder;

Steps steps_of(const Made& made) {
  const Scopes scopes = build_scopes(made.trace, made.device());
  return find_steps(made.trace, made.device(), made.history, scopes, made.trace.events[0].time_ns);
}

TEST(NamesAStep, IsAboutTrainingSteps) {
  for (const char* name : {"step", "train_step", "Step 12", "## iteration 3 ##", "trainBatch",
                           "iter", "training step"}) {
    EXPECT_TRUE(names_a_step(name)) << name;
  }
  for (const char* name : {"Optimizer.step", "stepper", "batch_norm", "forward", "train", "",
                           "data batch", "step_size_search"}) {
    EXPECT_FALSE(names_a_step(name)) << name;
  }
}

// One region a step with everything in it, and what is outside it.
Made annotated(const std::vector<std::string>& names) {
  TraceBuilder b;
  const auto weights = b.alloc(1 << 20);
  for (const std::string& name : names) {
    b.begin(name);
    const auto x = b.alloc(2 << 20);
    b.begin("forward");
    b.temporary(1 << 16);
    b.end("forward");
    b.free(x);
    b.end(name);
  }
  b.free(weights);
  return b.build();
}

TEST(Steps, ProfilerStepsComeFirst) {
  const Made made = annotated({"ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"});
  const Steps steps = steps_of(made);
  EXPECT_EQ(steps.source, StepSource::kAnnotations);
  ASSERT_EQ(steps.steps.size(), 3U);
  EXPECT_EQ(steps.steps[1].name, "ProfilerStep#4");
  EXPECT_EQ(steps.steps[0].peak_requested_bytes, (1U << 20) + (2U << 20) + (1U << 16));
  EXPECT_EQ(steps.steps[0].end_requested_bytes, 1U << 20);
  EXPECT_THAT(steps.evidence, HasSubstr("ProfilerStep#N, 3 times"));
}

TEST(Steps, NamedRegions) {
  EXPECT_EQ(steps_of(annotated({"train_step", "train_step"})).steps.size(), 2U);
  EXPECT_EQ(steps_of(annotated({"iteration 7", "iteration 8"})).evidence,
            "annotation iteration N, 2 times");
  EXPECT_EQ(steps_of(annotated({"work 7", "work 8", "work 9"})).steps.size(), 0U)
      << "numbered, but nothing is trained";
  EXPECT_EQ(steps_of(annotated({"work", "work", "work"})).steps.size(), 0U);
}

TEST(Steps, OptimizerMarksGiveThePeriodAndLowWaterTheBoundary) {
  const Made made = record({.steps = 7, .annotated = true});
  const Steps steps = steps_of(made);
  ASSERT_EQ(steps.steps.size(), 7U);
  EXPECT_EQ(steps.source, StepSource::kAnnotations);
  EXPECT_THAT(steps.evidence, HasSubstr("Optimizer.step#AdamW.step, 7 times"));
  EXPECT_EQ(steps.warmup_count, 1U);
  // Weights and optimizer state alone are alive at each boundary: the gradients were freed before
  // it.
  for (size_t i = 1; i < 7; ++i)
    EXPECT_EQ(steps.steps[i].end_requested_bytes, steps.steps[6].end_requested_bytes);
  for (size_t i = 2; i < 7; ++i) EXPECT_EQ(steps.steps[i].event_count, steps.steps[1].event_count);
}

// The batch that the next step loads may be smaller than the one it replaces: the boundary must not
// move to the place where that lowers live bytes most.
TEST(Steps, BoundariesStayAtTheMarkWhenBatchesChange) {
  testing::TraceBuilder b;
  std::vector<uint64_t> marks;
  auto batch = b.alloc(900'000);
  for (const uint64_t size : {500'000, 800'000, 400'000, 900'000, 300'000, 700'000}) {
    b.temporary(20 << 20);
    b.begin("Optimizer.step#SGD.step");
    b.temporary(1000);
    b.end("Optimizer.step#SGD.step");
    marks.push_back(b.event());
    const auto next = b.alloc(size);
    b.free(batch);
    batch = next;
  }
  const Steps steps = steps_of(b.build());
  ASSERT_EQ(steps.steps.size(), marks.size());
  for (size_t i = 0; i < marks.size(); ++i)
    EXPECT_EQ(steps.steps[i].first_event + steps.steps[i].event_count, marks[i]) << i;
}

TEST(Steps, SkippedOptimizerStepsAreFilledInByZeroGrad) {
  TraceBuilder b;
  for (int i = 0; i < 6; ++i) {
    b.begin("Optimizer.zero_grad#SGD.zero_grad");
    b.end("Optimizer.zero_grad#SGD.zero_grad");
    b.temporary(1 << 20);
    if (i < 2) continue;  // the scaler found infinities
    b.begin("Optimizer.step#SGD.step");
    b.temporary(1 << 10);
    b.end("Optimizer.step#SGD.step");
  }
  const Made made = b.build();
  const Steps steps = steps_of(made);
  EXPECT_EQ(steps.steps.size(), 6U);
  EXPECT_THAT(steps.evidence, HasSubstr("skipped"));
}

TEST(Steps, OfSeveralOptimizersTheRarestGivesThePeriod) {
  TraceBuilder b;
  for (int i = 0; i < 12; ++i) {
    b.begin("Optimizer.step#Critic.step");
    b.temporary(1 << 20);
    b.end("Optimizer.step#Critic.step");
    if (i % 3 != 2) continue;
    b.begin("Optimizer.step#Generator.step");
    b.temporary(1 << 20);
    b.end("Optimizer.step#Generator.step");
  }
  EXPECT_EQ(steps_of(b.build()).steps.size(), 4U);
}

struct RepetitionCase {
  const char* name;
  Job job;
};

class StepsByRepetition : public ::testing::TestWithParam<RepetitionCase> {};

TEST_P(StepsByRepetition, CountsTheStepsOfTheJob) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    Job job = GetParam().job;
    job.seed = seed;
    const Steps steps = steps_of(record(job));
    EXPECT_EQ(steps.source, StepSource::kRepetition) << steps.evidence;
    EXPECT_EQ(steps.steps.size(), job.steps) << "seed " << seed << ": " << steps.evidence;
    for (size_t i = 1; i < steps.steps.size(); ++i) {
      EXPECT_EQ(steps.steps[i].first_event,
                steps.steps[i - 1].first_event + steps.steps[i - 1].event_count);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, StepsByRepetition,
    ::testing::Values(
        RepetitionCase{"plain", {.steps = 12}}, RepetitionCase{"few", {.steps = 4}},
        RepetitionCase{"many", {.steps = 1500, .variable_length = true, .leak_bytes = 20'000}},
        RepetitionCase{"variable", {.steps = 30, .variable_length = true}},
        RepetitionCase{"accumulating", {.steps = 10, .variable_length = true, .accumulation = 4}},
        RepetitionCase{"evaluating", {.steps = 24, .evaluate_every = 5}},
        RepetitionCase{"small", {.steps = 20, .layers = 6, .variable_length = true, .noise = 5}},
        RepetitionCase{"generating", {.steps = 12, .generated_tokens = 40}},
        RepetitionCase{
            "leaking",
            {.steps = 30, .variable_length = true, .leak_bytes = 30'000, .leak_every = 3}},
        RepetitionCase{"caching", {.steps = 20, .cached_shapes = 8}}),
    [](const auto& param) { return param.param.name; });

// Only three steps with their evaluation repeat. Steps before the first repetition and after the
// last are not seen.
TEST(Steps, ThatDifferByFrequentEvaluationsAreOneEach) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    for (const bool variable : {false, true}) {
      const Job job = {.seed = seed,
                       .steps = 24,
                       .layers = 11,
                       .variable_length = variable,
                       .evaluate_every = 3};
      const Steps steps = steps_of(record(job));
      EXPECT_GE(steps.steps.size(), job.steps * 3 / 4) << "seed " << seed << ": " << steps.evidence;
      EXPECT_LE(steps.steps.size(), job.steps) << "seed " << seed << ": " << steps.evidence;
    }
  }
}

// What a step does last, after its gradients were freed, never counts for the next one, whatever
// the steps before and after it do between the same two gradients.
TEST(Steps, ByRepetitionEndAtOnePlaceOfTheProgram) {
  constexpr uint64_t kLast = 12'345;
  size_t all = 0;
  size_t moved = 0;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    const Made made = record({.seed = seed,
                              .steps = 20,
                              .accumulation = 1 + seed % 2,
                              .last_losses = 3,
                              .leak_bytes = kLast,
                              .noise = 4,
                              .common = 2,
                              .common_bytes = 6000});
    const Steps steps = steps_of(made);
    for (size_t i = 2; i + 1 < steps.steps.size(); ++i) {
      const auto events = std::span(made.trace.events)
                              .subspan(steps.steps[i].first_event, steps.steps[i].event_count);
      const auto is_last = [](const trace::Event& e) {
        return e.kind == trace::EventKind::kAlloc && e.size_bytes == kLast;
      };
      moved += std::ranges::count_if(events, is_last) == 1 ? 0 : 1;
      ++all;
    }
  }
  EXPECT_GE(all, 1690U);
  EXPECT_LE(moved * 100, all);
}

// The sequence that repeats comes twice in one of their steps.
TEST(Steps, OfWhichSomeContainTheSequenceTwiceAreOneEach) {
  for (const uint32_t seed : {2, 34, 49, 52}) {
    const Job job = {.seed = seed,
                     .steps = 24,
                     .layers = 6 + seed % 4,
                     .variable_length = true,
                     .accumulation = 1 + seed % 3,
                     .noise = 4,
                     .prefetched = 3};
    const Steps steps = steps_of(record(job));
    EXPECT_EQ(steps.steps.size(), job.steps) << "seed " << seed << ": " << steps.evidence;
  }
}

TEST(Steps, ARingThatBeginsMidStepCountsTheWholeSteps) {
  const Steps steps = steps_of(record({.steps = 9, .begins_mid_step = true}));
  EXPECT_GE(steps.steps.size(), 9U);
  EXPECT_LE(steps.steps.size(), 10U);
}

TEST(Steps, AreNotInvented) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    TraceBuilder b;
    std::vector<TraceBuilder::Block> live;
    for (int i = 0; i < 3000; ++i) {
      const uint64_t sizes = seed % 2 == 0 ? 4 : 1000;  // few sizes recur by chance
      live.push_back(b.alloc((1 + random() % sizes) * 512));
      if (live.size() < 20 + random() % 50) continue;
      const size_t victim = random() % live.size();
      b.free(live[victim]);
      live.erase(live.begin() + static_cast<ptrdiff_t>(victim));
    }
    const Steps steps = steps_of(b.build());
    EXPECT_EQ(steps.source, StepSource::kNone) << "seed " << seed << ": " << steps.evidence;
    EXPECT_FALSE(steps.evidence.empty());
  }
  TraceBuilder loading;
  for (int i = 0; i < 500; ++i) loading.alloc(4096 + 512 * (i % 7));
  EXPECT_EQ(steps_of(loading.build()).source, StepSource::kNone);
  EXPECT_EQ(steps_of([] {
              TraceBuilder b;
              b.alloc(1);
              return b.build();
            }())
                .steps.size(),
            0U);
}

TEST(Steps, PeaksAreThoseOfTheCurve) {
  const Made made = record({.steps = 8, .variable_length = true});
  const Steps steps = steps_of(made);
  uint64_t largest = 0;
  for (const Step& s : steps.steps) largest = std::max(largest, s.peak_requested_bytes);
  uint64_t live = 0;
  uint64_t peak = 0;
  for (size_t e = 0; e < made.trace.events.size(); ++e) {
    const trace::Event& event = made.trace.events[e];
    if (event.kind == trace::EventKind::kAlloc) live += event.size_bytes;
    if (event.kind == trace::EventKind::kFreeCompleted) live -= event.size_bytes;
    peak = std::max(peak, live);
  }
  EXPECT_EQ(largest, peak);
}

TEST(CountWarmup, EndsWhenEndAndReserveStandStill) {
  std::vector<Step> steps(12);
  for (size_t i = 0; i < steps.size(); ++i) {
    steps[i].event_count = 100;
    steps[i].peak_requested_bytes = 1000;
    steps[i].end_requested_bytes = i == 0 ? 100 : i == 1 ? 300 : 400;
    steps[i].peak_reserved_bytes = i < 2 ? 1000 : 2000;
  }
  EXPECT_EQ(count_warmup(steps), 3U);
  for (Step& s : steps) s.end_requested_bytes = 400;
  for (Step& s : steps) s.peak_reserved_bytes = 2000;
  EXPECT_EQ(count_warmup(steps), 0U);
  for (size_t i = 0; i < steps.size(); ++i)
    steps[i].end_requested_bytes = 400 + 50 * i;  // a leak is no warm-up
  EXPECT_EQ(count_warmup(steps), 0U);
}

}  // namespace
}  // namespace vram::explain
