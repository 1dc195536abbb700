#include "explain/steps/evidence.hpp"

#include "explain/steps/steps.hpp"
#include "explain/testing/trace_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using testing::Made;
using ::testing::SizeIs;
using testing::TraceBuilder;
using Blocks = std::vector<TraceBuilder::Block>;

constexpr uint64_t kMb = 1 << 20;
constexpr uint32_t kLayers = 24;

// One layer without gradients; its output is handed on.
TraceBuilder::Block infer(TraceBuilder& b, TraceBuilder::Block input) {
  for (uint64_t i = 0; i < 8; ++i) b.temporary(kMb + i * 512);
  const auto output = b.alloc(kMb);
  b.free(input);
  return output;
}

// One layer with gradients: what the backward pass needs of it stays.
void remember(TraceBuilder& b, Blocks* activations) {
  for (uint64_t i = 0; i < 4; ++i) {
    b.temporary(kMb + i * 512);
    activations->push_back(b.alloc(kMb + i * 1024));
  }
}

void go_back(TraceBuilder& b, Blocks* activations, Blocks* gradients) {
  gradients->push_back(b.alloc(kMb / 4));
  for (int i = 0; i < 4; ++i) {
    b.temporary(kMb / 2 + 512);
    b.free(activations->back());
    activations->pop_back();
  }
}

Steps steps_in(const Made& made) {
  const Scopes scopes = build_scopes(made.trace, made.device());
  return find_steps(made.trace, made.device(), made.history, scopes, made.trace.events[0].time_ns);
}

void expect_none(TraceBuilder& b) {
  const Steps steps = steps_in(b.build());
  EXPECT_EQ(steps.source, StepSource::kNone) << steps.steps.size() << " steps: " << steps.evidence;
  EXPECT_TRUE(steps.steps.empty());
}

TEST(NoSteps, AreTheLayersOfAForwardPassWithoutGradients) {
  TraceBuilder b;
  auto hidden = b.alloc(kMb);
  for (uint32_t i = 0; i < kLayers; ++i) hidden = infer(b, hidden);
  expect_none(b);
}

TEST(NoSteps, AreTheLayersOfAForwardPassThatFillsACacheOfKeys) {
  TraceBuilder b;
  auto hidden = b.alloc(kMb);
  for (uint32_t i = 0; i < kLayers; ++i) {
    hidden = infer(b, hidden);
    b.alloc(kMb / 2);
    b.alloc(kMb / 2);
  }
  expect_none(b);
}

TEST(NoSteps, AreTheLayersOfAForwardPassWithGradients) {
  for (const bool named : {false, true}) {
    TraceBuilder b;
    Blocks activations;
    for (uint32_t i = 0; i < kLayers; ++i) {
      if (named) b.begin("layer" + std::to_string(i));
      remember(b, &activations);
      if (named) b.end("layer" + std::to_string(i));
    }
    expect_none(b);
  }
}

TEST(NoSteps, AreTheLayersOfOneForwardAndBackwardPass) {
  TraceBuilder b;
  Blocks activations;
  Blocks gradients;
  for (uint32_t i = 0; i < kLayers; ++i) remember(b, &activations);
  for (uint32_t i = 0; i < kLayers; ++i) go_back(b, &activations, &gradients);
  expect_none(b);
}

// Activation checkpointing: each layer of the backward pass has a small forward and backward of its
// own.
TEST(NoSteps, AreTheLayersOfABackwardPassThatComputesTheForwardAgain) {
  for (const bool begins_before : {false, true}) {
    TraceBuilder b;
    Blocks inputs;
    Blocks gradients;
    for (uint32_t i = 0; i < 2 * kLayers; ++i)
      inputs.push_back(begins_before ? b.before_recording(kMb) : b.alloc(kMb));
    for (uint32_t i = 0; i < 2 * kLayers; ++i) {
      Blocks activations;
      for (int part = 0; part < 3; ++part) remember(b, &activations);
      for (int part = 0; part < 3; ++part) go_back(b, &activations, &gradients);
      b.free(inputs.back());
      inputs.pop_back();
    }
    expect_none(b);
  }
}

TEST(NoSteps, AreTheRoundsOfABenchmark) {
  TraceBuilder b;
  for (int i = 0; i < 40; ++i) {
    b.begin("benchmark_all_configs");
    const auto output = b.alloc(4 * kMb);
    for (uint64_t k = 0; k < 9; ++k) b.temporary(kMb + k * 512);
    b.free(output);
    b.end("benchmark_all_configs");
  }
  expect_none(b);
}

TEST(Steps, OfARegionOfAnyNameAreThoseThatTrain) {
  TraceBuilder b;
  for (int i = 0; i < 6; ++i) {
    b.begin("work");
    Blocks activations;
    Blocks gradients;
    for (uint32_t k = 0; k < kLayers; ++k) remember(b, &activations);
    for (uint32_t k = 0; k < kLayers; ++k) go_back(b, &activations, &gradients);
    b.free_all(&gradients);
    b.end("work");
  }
  const Steps steps = steps_in(b.build());
  EXPECT_EQ(steps.source, StepSource::kAnnotations);
  EXPECT_EQ(steps.steps.size(), 6U);
  EXPECT_NE(steps.evidence.find("annotation work, 6 times; most free"), std::string::npos)
      << steps.evidence;
}

TEST(Steps, AreRequestsThatStartAnew) {
  TraceBuilder b;
  b.alloc(8 * kMb);
  for (int i = 0; i < 12; ++i) {
    const auto ids = b.alloc(kMb / 8);
    for (uint64_t k = 0; k < 9; ++k) b.temporary(kMb / 8 + k * 512);
    auto hidden = b.alloc(kMb);
    for (uint32_t k = 0; k < kLayers; ++k) hidden = infer(b, hidden);
    const auto logits = b.alloc(3 * kMb);
    b.free(hidden);
    b.free(logits);
    b.free(ids);
  }
  const Steps steps = steps_in(b.build());
  EXPECT_EQ(steps.source, StepSource::kRepetition) << steps.evidence;
  EXPECT_EQ(steps.steps.size(), 12U) << steps.evidence;
}

// Of batches that change their size, some sequences recur in some steps alone: what is between
// two of them is one step, or several.
TEST(Steps, AreNotCountedWhereTheBatchSizeRecursNowAndThen) {
  TraceBuilder b;
  uint32_t random = 1;
  b.alloc(32 * kMb);
  constexpr size_t kSteps = 30;
  for (size_t i = 0; i < kSteps; ++i) {
    random = random * 1664525 + 1013904223;
    const uint64_t scale = 5 + (random >> 30);  // one of four
    Blocks activations;
    for (uint64_t k = 0; k < 8; ++k) {
      b.temporary(scale * kMb / 2 + k * 2048);
      activations.push_back(b.alloc(scale * kMb + k * 1024));
    }
    while (!activations.empty()) {
      b.temporary(scale * kMb + 512);
      b.free(activations.back());
      activations.pop_back();
    }
    for (uint64_t k = 0; k < 8; ++k) b.temporary(4 * kMb + k * 512);  // the optimizer's
  }
  const Steps steps = steps_in(b.build());
  if (!steps.steps.empty()) {
    EXPECT_NEAR(static_cast<double>(steps.steps.size()), kSteps, 1) << steps.evidence;
  }
}

// Of two passes a step, the first is deep and the second allocates while it frees. In one step, the
// second is deep as well.
TEST(Steps, OfPassesThatDoNotTrainAreNotDivided) {
  TraceBuilder b;
  b.alloc(8 * kMb);
  for (int i = 0; i < 14; ++i) {
    Blocks blocks;
    for (uint64_t k = 0; k < 20; ++k) blocks.push_back(b.alloc(kMb + k * 512));
    std::ranges::reverse(blocks);
    b.free_all(&blocks);
    for (uint64_t k = 0; k < (i == 6 ? 14 : 9); ++k) blocks.push_back(b.alloc(2 * kMb + k * 512));
    Blocks gradients;
    for (uint64_t k = 0; !blocks.empty(); ++k) {
      gradients.push_back(b.alloc(kMb / 4 + k * 512));
      b.free(blocks.back());
      blocks.pop_back();
    }
    b.free_all(&gradients);
  }
  const Steps steps = steps_in(b.build());
  EXPECT_EQ(steps.steps.size(), 14U) << steps.evidence;
}

using One = std::function<void(TraceBuilder&)>;

// The ranges of `count` calls, each with its own number of events.
std::vector<EventRange> ranges_of(TraceBuilder& b, size_t count, const One& one) {
  std::vector<EventRange> ranges;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t first = b.event();
    one(b);
    ranges.push_back({first, b.event()});
  }
  return ranges;
}

StepEvidence evidence_of(size_t count, const One& one) {
  TraceBuilder b;
  const std::vector<EventRange> ranges = ranges_of(b, count, one);
  return find_evidence(b.build().history, ranges);
}

void train(TraceBuilder& b, size_t activations, bool backwards) {
  Blocks blocks;
  for (size_t i = 0; i < activations; ++i) blocks.push_back(b.alloc(kMb));
  if (backwards) std::ranges::reverse(blocks);
  b.free_all(&blocks);
}

TEST(FindEvidence, OfTrainingIsTheOrderOfFrees) {
  EXPECT_TRUE(evidence_of(4, [](auto& b) { train(b, kMinNested, true); }).trains);
  EXPECT_FALSE(evidence_of(4, [](auto& b) { train(b, 2 * kMinNested, false); }).trains);
  EXPECT_TRUE(evidence_of(4, [](auto& b) { train(b, kMinNestedAlone, true); }).trains);
  EXPECT_FALSE(evidence_of(4, [](auto& b) { train(b, kMinNestedAlone - 1, true); }).trains);
  EXPECT_FALSE(evidence_of(1, [](auto& b) { train(b, kMinNested, true); }).trains);
}

// As a layer does that hands its output on.
TEST(FindEvidence, OfFewNestedLivesIsEnoughOnlyIfLittleIsHandedOn) {
  const auto handing = [](uint64_t bytes, size_t nested) {
    return [bytes, nested, handed = std::optional<TraceBuilder::Block>()](TraceBuilder& b) mutable {
      const auto old = std::exchange(handed, b.alloc(bytes));
      train(b, nested, true);
      if (old) b.free(*old);
    };
  };
  EXPECT_TRUE(evidence_of(8, handing(kMb / 4, kMinNestedAlone)).trains);
  EXPECT_FALSE(evidence_of(8, handing(kMb, kMinNestedAlone)).trains);
  EXPECT_FALSE(evidence_of(8, handing(kMb, kMinNested - 1)).trains);
  EXPECT_TRUE(evidence_of(8, handing(kMb, kMinNested)).trains);
}

TEST(FindEvidence, OfTrainingMayKeepLessThanHalf) {
  const auto keeping = [](uint64_t bytes) {
    return [bytes](TraceBuilder& b) {
      b.alloc(bytes);
      train(b, 10, true);
    };
  };
  EXPECT_TRUE(evidence_of(12, keeping(9 * kMb)).trains);
  EXPECT_FALSE(evidence_of(12, keeping(11 * kMb)).trains);
}

TEST(FindEvidence, OfEvenRangesIsThatMostHaveAsManyPasses) {
  const auto passes = [](size_t most) {
    return [most, i = size_t{0}](TraceBuilder& b) mutable {
      for (size_t k = 0; k <= i % most; ++k) train(b, kMinNested, true);
      ++i;
    };
  };
  EXPECT_TRUE(evidence_of(8, passes(1)).is_even);
  EXPECT_FALSE(evidence_of(8, passes(2)).is_even);
  const auto with_evaluation = [i = 0](TraceBuilder& b) mutable {
    const int more = ++i % 6 == 0 ? 3 : 0;
    for (int k = 0; k <= more; ++k) train(b, kMinNested, true);
  };
  const StepEvidence four = evidence_of(24, with_evaluation);
  EXPECT_TRUE(four.is_even);
  EXPECT_EQ(four.odd_ranges, 3U) << "of the first 23";
  // Evaluations free in another order.
  const auto every_third = [i = 0](TraceBuilder& b) mutable {
    train(b, kMinNested, true);
    if (++i % 3 == 0) train(b, kMinNested, false);
  };
  const StepEvidence single = evidence_of(12, every_third);
  EXPECT_TRUE(single.is_even);
  EXPECT_FALSE(single.has_evaluations);
  EXPECT_EQ(single.usual_passes, 1U);
  EXPECT_EQ(single.odd_ranges, 0U);
  EXPECT_THAT(single.turns, AllOf(SizeIs(12), Each(SizeIs(1))));
  const auto thirds = [](TraceBuilder& b) {
    for (int k = 0; k < 3; ++k) train(b, kMinNested, true);
    train(b, kMinNested, false);
  };
  const StepEvidence triple = evidence_of(4, thirds);
  EXPECT_TRUE(triple.is_even);
  EXPECT_TRUE(triple.has_evaluations);
  EXPECT_EQ(triple.usual_passes, 3U);
  EXPECT_THAT(triple.turns, AllOf(SizeIs(4), Each(SizeIs(3))));
  // Small ones outside the pass, and what is kept.
  EXPECT_TRUE(evidence_of(8, [i = 0](TraceBuilder& b) mutable {
                for (int k = 0; k < i % 3; ++k) b.temporary(kMb);
                train(b, kMinNested, true);
                b.alloc(kMb / 8);
                ++i;
              }).is_even);
}

// An optimizer that works on all parameters at once.
TEST(FindEvidence, CountsNoPassThatAllocatesNothingWhileItFrees) {
  const auto pass = [](TraceBuilder& b, bool has_gradients) {
    Blocks gradients;
    Blocks blocks;
    for (size_t i = 0; i < kMinNested; ++i) blocks.push_back(b.alloc(kMb));
    while (!blocks.empty()) {
      if (has_gradients) gradients.push_back(b.alloc(kMb / 100));
      b.free(blocks.back());
      blocks.pop_back();
    }
    b.free_all(&gradients);
  };
  const StepEvidence evidence = evidence_of(12, [&, i = 0](TraceBuilder& b) mutable {
    pass(b, true);
    if (++i % 2 == 0) pass(b, false);
  });
  EXPECT_TRUE(evidence.trains);
  EXPECT_TRUE(evidence.is_even);
  EXPECT_THAT(evidence.turns, AllOf(SizeIs(12), Each(SizeIs(1))));
}

TEST(FindEvidence, OfStandingAloneIsThatNothingIsHandedOn) {
  TraceBuilder::Block handed = 0;
  const auto handing = [&](uint64_t bytes) {
    handed = TraceBuilder::Block(-1);
    return [&handed, bytes](TraceBuilder& b) {
      const auto old = handed;
      b.temporary(50 * kMb);
      handed = b.alloc(bytes);
      if (old != TraceBuilder::Block(-1)) b.free(old);
    };
  };
  EXPECT_TRUE(evidence_of(8, handing(kMb)).stands_alone);
  EXPECT_FALSE(evidence_of(8, handing(2 * kMb)).stands_alone);
  EXPECT_FALSE(evidence_of(8, handing(kMb)).trains);
}

}  // namespace
}  // namespace vram::explain
