#include "plan/split/split.hpp"

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/testing/paths.hpp"
#include "plan/model/families.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace vram::plan {
namespace {

Architecture read_model(const std::string& name) {
  const std::string path = source_path("tests/data/plan/models/" + name + ".json");
  return parse_model(read_whole(path, kMiB).value()).value();
}

std::vector<Card> cards(size_t count, uint64_t gib, const std::string& name = "card") {
  return std::vector<Card>(count, {name, gib * kGiB});
}

constexpr Task kInference = {
    .use = Use::kInfer, .precision = Precision::kBf16, .batch = 1, .sequence = 4096};

TEST(Split, OfASeventyBillionModelFitsTwoLargeCardsForInference) {
  const Architecture model = read_model("llama-70b");
  for (const Split split : {Split::kTensor, Split::kDeviceMap}) {
    const auto plan = plan_split(model, kInference, {split, cards(2, 78)});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_TRUE(plan->fits);
    EXPECT_GE(plan->largest_batch, 1u);
    ASSERT_EQ(plan->cards.size(), 2u);
    for (const CardShare& each : plan->cards)
      EXPECT_GT(each.estimate.peak_bytes(), 62 * kGiB);  // half of 128 GiB of weights
  }
  EXPECT_EQ(plan_split(model, kInference, {Split::kDeviceMap, cards(1, 78)}).error().code,
            Code::kTooLarge);
}

TEST(Split, FindsTheSmallestShardingThatFits) {
  const Architecture model = read_model("llama-7b");
  const Task task = {.batch = 1, .sequence = 1024};
  const auto sharding = [&](uint64_t gib) {
    return plan_split(model, task, {Split::kShard, cards(8, gib)})
        .value()
        .cards.front()
        .share.sharding;
  };
  EXPECT_EQ(sharding(160), Sharding::kNone);
  EXPECT_EQ(sharding(40), Sharding::kOptimizer);
  EXPECT_EQ(sharding(30), Sharding::kGradients);
  EXPECT_EQ(sharding(24), Sharding::kWeights);
  EXPECT_FALSE(plan_split(model, task, {Split::kShard, cards(8, 8)}).value().fits);
}

TEST(Split, NeverNeedsMoreThanAnyCardHas) {
  std::mt19937 random(33);
  const auto draw = [&](uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random);
  };
  int fitting = 0;
  for (int i = 0; i < 40; ++i) {
    const Architecture model = read_model(i % 2 == 0 ? "gpt2" : "llama-1b");
    const Task task = {.use = i % 3 == 0 ? Use::kInfer : Use::kTrain,
                       .precision = Precision::kBf16,
                       .batch = draw(1, 4),
                       .sequence = draw(64, 1024)};
    SplitRequest request = {i % 4 < 2 ? Split::kDeviceMap : Split::kPipeline, {}};
    for (uint64_t count = draw(1, 4); count > 0; --count)
      request.cards.push_back({"card", draw(1, 16) * kGiB / 2});
    const auto plan = plan_split(model, task, request);
    if (!plan) continue;
    ++fitting;
    std::set<size_t> used;
    for (const CardShare& each : plan->cards) {
      EXPECT_LE(each.estimate.peak_bytes(), request.cards[each.card].budget_bytes);
      EXPECT_TRUE(used.insert(each.card).second);
    }
    EXPECT_GE(plan->largest_batch, task.batch);
  }
  EXPECT_GT(fitting, 15);
}

TEST(Split, OfEqualCardsIsBalanced) {
  const Architecture model = read_model("llama-7b");
  const auto plan = plan_split(model, kInference, {Split::kDeviceMap, cards(4, 24)}).value();
  ASSERT_EQ(plan.cards.size(), 4u);
  for (const CardShare& each : plan.cards) {
    EXPECT_GE(each.share.last - each.share.first, 7u);
    EXPECT_LE(each.share.last - each.share.first, 9u);
  }
}

TEST(Split, GivesFasterCardsMoreLayers) {
  const Architecture model = read_model("llama-7b");
  const Task task = {.precision = Precision::kBf16, .batch = 1, .sequence = 1024};
  std::vector<Card> both = {{"A100 80GB", 78 * kGiB}, {"H100 80GB", 78 * kGiB}};
  const auto plan = plan_split(model, task, {Split::kPipeline, both}).value();
  ASSERT_TRUE(plan.has_speeds);
  ASSERT_EQ(plan.cards.size(), 2u);
  const auto layers = [&](size_t card) {
    const auto found = std::ranges::find(plan.cards, card, &CardShare::card);
    return found->share.last - found->share.first;
  };
  // The H100's rate is 3.2 times that of the A100.
  EXPECT_GT(layers(1), 2 * layers(0));
  both[0].name = "a card without rates";
  EXPECT_FALSE(plan_split(model, task, {Split::kPipeline, both}).value().has_speeds);
}

TEST(Split, OfAPipelineHoldsMoreMicroBatchesOnItsFirstStages) {
  const Architecture model = read_model("llama-7b");
  const Task task = {.precision = Precision::kBf16, .batch = 1, .sequence = 512};
  const auto plan = plan_split(model, task, {Split::kPipeline, cards(4, 40)}).value();
  ASSERT_EQ(plan.cards.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(plan.cards[i].share.in_flight, 4 - i);
}

TEST(Split, MapsEveryModuleOnceAndKeepsTiedOnesTogether) {
  for (const char* name : {"llama-7b", "gpt2"}) {
    const Architecture model = read_model(name);
    Task task = kInference;
    task.sequence = 512;
    const uint64_t gib = name == std::string("gpt2") ? 1 : 10;
    auto few = cards(2, gib);
    const auto plan = plan_split(model, task, {Split::kDeviceMap, few}).value();
    std::map<std::string, size_t> map;
    for (const auto& [module, card] : device_map(model, plan))
      EXPECT_TRUE(map.emplace(module, card).second) << module;
    EXPECT_EQ(map.count(model.names.head), 1u);
    for (size_t i = 0; i < model.blocks.size(); ++i)
      EXPECT_EQ(map.count(model.names.blocks + "." + std::to_string(i)), 1u);
    if (model.is_head_tied) {
      EXPECT_EQ(map[model.names.head], map[model.names.before.front()]);
    }
  }
}

TEST(Split, NamesTheDegreesOfTensorParallelismThatDivideAModel) {
  const Architecture model = read_model("qwen2-7b");  // 28 heads, 4 of keys
  EXPECT_EQ(plan_split(model, kInference, {Split::kTensor, cards(3, 24)}).error().message,
            "3 cards cannot divide the model's 28 attention heads and its MLP equally; numbers "
            "that can: 2, 4");
  EXPECT_TRUE(plan_split(model, kInference, {Split::kTensor, cards(4, 24)}));
}

TEST(Split, OfInferenceIsNotSharded) {
  const auto plan = plan_split(read_model("gpt2"), {.use = Use::kInfer, .sequence = 8},
                               {Split::kShard, cards(2, 24)});
  EXPECT_EQ(plan.error().code, Code::kBadInput);
}

}  // namespace
}  // namespace vram::plan
