// Each pattern planted in a training program and found with the bytes that removing it saves, and
// programs that resemble it, in which nothing is found.
#include "explain/waste/patterns.hpp"

#include "base/bytes.hpp"
#include "explain/testing/planted.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vram::explain {
namespace {

using testing::find;
using ::testing::HasSubstr;
using testing::patterns_in;
using testing::Planted;
using Block = Planted::Block;
using Training = testing::PlantedTraining;

constexpr uint32_t kLayers = Training::kLayers;
constexpr uint64_t kWeight = Training::kWeight;
constexpr uint64_t kActivation = Training::kActivation;

TEST(Patterns, NothingIsFoundInAProgramWithoutWaste) {
  EXPECT_THAT(patterns_in(Training().report()), ::testing::IsEmpty());
}

TEST(Patterns, GradientsOfTheLastStepLiveThroughTheForwardPass) {
  Training training;
  training.zeroes_late = true;
  const DeviceReport report = training.report();
  const auto found = find(report, FindingKind::kGradientsKept);
  ASSERT_TRUE(found);
  // The first gradient of the backward pass then makes the peak.
  EXPECT_EQ(found->saves_bytes, (kLayers - 1) * kWeight);
  EXPECT_EQ(found->bytes, (kLayers - 1) * kWeight);
  EXPECT_EQ(found->line, "train.py:77 main");
  EXPECT_THAT(found->advice, HasSubstr("directly after optimizer.step()"));
  EXPECT_EQ(patterns_in(report).size(), 1U);
}

// Accumulated gradients are needed in the next forward pass.
TEST(Patterns, GradientsThatAccumulateAreNotKeptTooLong) {
  Training training;
  std::vector<Block> accumulated;
  training.after_forward = [&](uint32_t) {
    if (accumulated.empty())
      for (uint32_t i = 0; i < kLayers; ++i) accumulated.push_back(training.p.alloc(kWeight));
  };
  training.at_end = [&](uint32_t) { accumulated.clear(); };
  training.at_start = [&](uint32_t) {
    // Those of a pass without a step before it.
    for (uint32_t i = 0; i < kLayers; ++i) training.gradients.push_back(training.p.alloc(kWeight));
  };
  EXPECT_FALSE(find(training.report(), FindingKind::kGradientsKept));
}

TEST(Patterns, OptimizerStateIsIdleAtThePeak) {
  Training training;
  training.after_setup = [&] {
    training.p.begin("Optimizer.step#AdamW.step");
    for (uint32_t i = 0; i < kLayers; ++i) {
      const Block state = training.p.alloc(2 * kWeight);
      training.p.name(state, "layers." + std::to_string(i) + ".exp_avg", "optimizer state");
    }
    training.p.end("Optimizer.step#AdamW.step");
  };
  const auto found = find(training.report(), FindingKind::kIdleState);
  ASSERT_TRUE(found);
  // The optimizer's step, with the state back, becomes the peak.
  EXPECT_GT(*found->saves_bytes, kLayers * kWeight / 2);
  EXPECT_LE(*found->saves_bytes, 2 * kLayers * kWeight);
  EXPECT_THAT(found->advice, HasSubstr("vram.park"));
}

TEST(Patterns, StateWithoutANameGivesNoVerdict) {
  Training training;
  training.after_setup = [&] {
    for (uint32_t i = 0; i < kLayers; ++i) training.p.alloc(2 * kWeight);
  };
  EXPECT_FALSE(find(training.report(), FindingKind::kIdleState));
}

TEST(Patterns, TemporariesMakeThePeak) {
  Training training;
  training.after_forward = [&](uint32_t) {
    training.p.free(training.p.alloc(96 * kMiB, training.p.in_module(60)));
  };
  const DeviceReport report = training.report();
  const auto found = find(report, FindingKind::kTemporaries);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->line, "model.py:60 forward");
  // Without it the backward pass is the peak: its gradient, and a temporary that is smaller.
  EXPECT_EQ(found->saves_bytes, 96 * kMiB - kWeight);
}

TEST(Patterns, WhatLivesLongerIsNoTemporary) {
  Training training;
  Block kept = 0;
  training.at_start = [&](uint32_t) {
    kept = training.p.alloc(96 * kMiB, training.p.in_module(60));
  };
  training.at_end = [&](uint32_t) { training.p.free(kept); };
  EXPECT_FALSE(find(training.report(), FindingKind::kTemporaries));
}

// Keeps one result of each step; `window`: until so many more were made.
DeviceReport keep_results(size_t window, bool in_module) {
  Training training;
  std::vector<Block> results;
  const trace::StackId stack =
      in_module ? training.p.in_module(70) : training.p.stack({{"load", "/home/me/data.py", 5}});
  training.after_forward = [&, window, stack](uint32_t) {
    results.push_back(training.p.alloc(64 * kMiB, stack));
    if (results.size() <= window) return;
    training.p.free(results.front());
    results.erase(results.begin());
  };
  return training.report();
}

TEST(Patterns, AResultIsReleasedWhenTheNextOneIsMade) {
  const auto found = find(keep_results(1, true), FindingKind::kLateFree);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->line, "model.py:70 forward");
  EXPECT_EQ(found->saves_bytes, 64 * kMiB - kWeight);
}

TEST(Patterns, AResultOfItsOwnStepAWindowAndABatchAreNotLate) {
  EXPECT_FALSE(find(keep_results(0, true), FindingKind::kLateFree));
  EXPECT_FALSE(find(keep_results(3, true), FindingKind::kLateFree));
  // The next step reads a batch: its place shows no module.
  EXPECT_FALSE(find(keep_results(1, false), FindingKind::kLateFree));
}

// The program with the change made: what the finding states must be what it saves.
void expect_saved(const std::optional<Finding>& found, const DeviceReport& before,
                  const DeviceReport& after) {
  ASSERT_TRUE(found);
  EXPECT_EQ(found->saves_bytes, before.peak.requested.totals.requested_bytes -
                                    after.peak.requested.totals.requested_bytes);
  EXPECT_EQ(found->saves_reserved_bytes,
            before.peak.reserved.totals.reserved_bytes - after.peak.reserved.totals.reserved_bytes);
}

TEST(Patterns, SaveWhatTheChangedProgramSaves) {
  Training late;
  late.zeroes_late = true;
  const DeviceReport before = late.report();
  expect_saved(find(before, FindingKind::kGradientsKept), before, Training().report());

  const auto with_temporary = [](bool has) {
    Training training;
    training.after_forward = [&, has](uint32_t) {
      if (has) training.p.free(training.p.alloc(96 * kMiB, training.p.in_module(60)));
    };
    return training.report();
  };
  const DeviceReport large = with_temporary(true);
  expect_saved(find(large, FindingKind::kTemporaries), large, with_temporary(false));
}

// Batches that a side stream allocates so many steps ahead.
DeviceReport fetch_ahead(size_t ahead, uint64_t stream) {
  Training training;
  std::vector<Block> batches;
  training.at_start = [&, ahead, stream](uint32_t) {
    while (batches.size() <= ahead) batches.push_back(training.p.alloc(32 * kMiB, 0, stream));
  };
  training.at_end = [&](uint32_t) {
    training.p.free(batches.front());
    batches.erase(batches.begin());
  };
  return training.report();
}

TEST(Patterns, PrefetchedBatches) {
  const auto found = find(fetch_ahead(2, 7), FindingKind::kPrefetch);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->title, HasSubstr("3 prefetched batches"));
  EXPECT_EQ(found->saves_bytes, 64 * kMiB);
}

// The variable of the batch is replaced, and the recording ends with two batches.
TEST(Patterns, ABatchIsReplacedByTheNextOne) {
  Training training;
  std::vector<Block> batches;
  training.at_start = [&](uint32_t) {
    batches.push_back(training.p.alloc(32 * kMiB, 0, 7));
    if (batches.size() <= 2) return;
    training.p.free(batches.front());
    batches.erase(batches.begin());
  };
  const auto found = find(training.report(), FindingKind::kPrefetch);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->saves_bytes, 32 * kMiB);
}

TEST(Patterns, ABatchThatIsInUseIsNotPrefetched) {
  EXPECT_FALSE(find(fetch_ahead(0, 7), FindingKind::kPrefetch));
  EXPECT_FALSE(find(fetch_ahead(2, 0), FindingKind::kPrefetch));  // no side stream: no verdict
}

// A pass without a backward pass in each step, twice as large as a training pass.
DeviceReport evaluate(bool trains, const std::function<void(Training&)>& pass) {
  Training training;
  if (!trains) training.steps = 0;
  training.at_start = [&](uint32_t) { pass(training); };
  if (!trains)
    training.after_setup = [&] {
      for (int i = 0; i < 8; ++i) pass(training);
    };
  return training.report();
}

void pass_with_graph(Training& training) {
  std::vector<Block> results;
  training.forward(2 * kActivation, results, "/home/me/eval.py");
  training.p.free_all(results);
}

TEST(Patterns, AForwardPassKeepsItsActivationsWithoutABackwardPass) {
  const auto found = find(evaluate(true, pass_with_graph), FindingKind::kNoGrad);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->advice, HasSubstr("no_grad"));
  // Eight results are taken to be in use at a time, and a temporary.
  EXPECT_EQ(found->saves_bytes, (kLayers - 8) * 2 * kActivation - kMiB / 2);
}

TEST(Patterns, ResultsThatTrainingDoesNotKeepAreNoGraph) {
  // A cache of keys and values, at other lines.
  const auto generate = [](Training& training) {
    std::vector<Block> cache;
    for (uint32_t i = 0; i < kLayers; ++i)
      cache.push_back(training.p.alloc(2 * kActivation, training.p.in_module(80 + i)));
    training.p.free_all(cache);
  };
  EXPECT_FALSE(find(evaluate(true, generate), FindingKind::kNoGrad));
  // Under no_grad each result is released when the next one was made.
  const auto no_grad = [](Training& training) {
    std::vector<Block> last;
    for (uint32_t i = 0; i < kLayers; ++i) {
      const Block next = training.p.alloc(16 * kActivation, training.p.in_module(10 + i));
      training.p.free_all(last);
      last.push_back(next);
    }
    training.p.free_all(last);
  };
  EXPECT_FALSE(find(evaluate(true, no_grad), FindingKind::kNoGrad));
  // Without a training pass to compare with: no verdict.
  EXPECT_FALSE(find(evaluate(false, pass_with_graph), FindingKind::kNoGrad));
}

// The same in a recording with scopes instead of stacks. `modules`: so many of them keep results.
DeviceReport evaluate_in_scopes(uint32_t modules) {
  Planted p;
  const auto forward = [&](uint32_t count, uint64_t bytes) {
    std::vector<Block> results;
    for (uint32_t i = 0; i < count; ++i) {
      p.scope("forward/layers." + std::to_string(i));
      results.push_back(p.alloc(bytes));
      p.free(p.alloc(kMiB));
    }
    return results;
  };
  for (int step = 0; step < 6; ++step) {
    p.begin("train_step");
    std::vector<Block> dropped = forward(modules, 3 * kActivation);
    p.scope("");
    p.free_all(dropped);
    std::vector<Block> kept = forward(2 * kLayers, kActivation);
    p.scope("backward");
    while (!kept.empty()) {
      p.free(p.alloc(kMiB));
      p.free(kept.back());
      kept.pop_back();
    }
    p.scope("");
    p.end("train_step");
  }
  return p.report();
}

TEST(Patterns, AGraphIsKnownByItsScopes) {
  const auto found = find(evaluate_in_scopes(2 * kLayers), FindingKind::kNoGrad);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->line, HasSubstr("forward/layers."));
  EXPECT_GT(*found->saves_bytes, 10 * kActivation);
  // A cache of some of the modules.
  EXPECT_FALSE(find(evaluate_in_scopes(kLayers), FindingKind::kNoGrad));
}

TEST(Patterns, AnOldModelIsAliveUntilTheNewOneIsThere) {
  Planted p;
  const auto load = [&] {
    std::vector<Block> model;
    for (uint64_t i = 0; i < kLayers; ++i) model.push_back(p.alloc(kWeight + i * kMiB));
    return model;
  };
  std::vector<Block> old = load();
  const std::vector<Block> model = load();
  p.free_all(old);
  for (int i = 0; i < 50; ++i) p.free(p.alloc(kMiB));
  const auto found = find(p.report(), FindingKind::kOldModel);
  ASSERT_TRUE(found);
  // The temporary of 1 MiB then makes the peak.
  EXPECT_EQ(found->saves_bytes, kLayers * kWeight + kLayers * (kLayers - 1) / 2 * kMiB - kMiB);
}

TEST(Patterns, TwoModelsThatBothStayAreNoOldModel) {
  Planted p;
  for (int copy = 0; copy < 2; ++copy)
    for (uint64_t i = 0; i < kLayers; ++i) p.alloc(kWeight + i * kMiB);
  for (int i = 0; i < 50; ++i) p.free(p.alloc(kMiB));
  EXPECT_TRUE(patterns_in(p.report()).empty());
}

TEST(Patterns, EqualParametersUnderTheSameName) {
  for (const bool is_same : {true, false}) {
    Training training;
    training.after_setup = [&] {
      for (uint32_t i = 0; i < kLayers; ++i) {
        const std::string name = "layers." + std::to_string(i) + ".weight";
        training.p.name(training.weights[i], name, "parameter");
        training.p.name(training.p.alloc(kWeight), is_same ? name : "ema." + name, "parameter");
      }
    };
    const auto found = find(training.report(), FindingKind::kEqualParameters);
    ASSERT_EQ(found.has_value(), is_same);
    if (is_same) {
      EXPECT_EQ(found->saves_bytes, kLayers * kWeight);
    }
  }
}

TEST(Patterns, StreamsHoldEqualBlocks) {
  for (const uint64_t other_bytes : {32 * kMiB, 31 * kMiB}) {
    Training training;
    training.after_setup = [&] {
      const trace::StackId stack = training.p.stack({{"matmul", "/home/me/model.py", 3}});
      training.p.alloc(32 * kMiB, stack, 0);
      training.p.alloc(other_bytes, stack, 7);
    };
    const auto found = find(training.report(), FindingKind::kDuplicate);
    ASSERT_EQ(found.has_value(), other_bytes == 32 * kMiB);
    if (found) {
      EXPECT_EQ(found->saves_bytes, 32 * kMiB);
    }
  }
}

TEST(Patterns, CopiesInFloat32ThatAutocastMade) {
  for (const std::string_view policy :
       {"(at::autocast::CastPolicy)1", "(at::autocast::CastPolicy)0"}) {
    Training training;
    const std::string cast =
        "at::autocast::WrapFunction_<" + std::string(policy) + ", float>::call";
    Block copy = 0;
    training.after_forward = [&](uint32_t) {
      copy = training.p.alloc(40 * kMiB, training.p.stack({{"at::native::_to_copy", "??", 0},
                                                           {cast, "??", 0},
                                                           {"loss", "/home/me/train.py", 30}}));
    };
    training.at_end = [&](uint32_t) { training.p.free(copy); };
    const auto found = find(training.report(), FindingKind::kUpcast);
    ASSERT_EQ(found.has_value(), policy.ends_with("1"));
    if (found) {
      EXPECT_EQ(found->line, "train.py:30 loss");
    }
  }
}

}  // namespace
}  // namespace vram::explain
