#include "plan/split/split.hpp"

#include "base/bytes.hpp"
#include "plan/split/layers.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace vram::plan {
namespace {

uint64_t smallest_budget(const std::vector<Card>& cards) {
  return std::ranges::min(cards, {}, &Card::budget_bytes).budget_bytes;
}

// The largest batch for which `fits` is true; 0 if there is none. It never becomes true again.
template <typename Fits>
uint64_t search_batch(const Task& task, Fits fits) {
  uint64_t good = 0;
  uint64_t bad = kMaxTokens / task.sequence + 1;
  while (bad - good > 1) {
    const uint64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

Task with_batch(Task task, uint64_t batch) {
  task.batch = batch;
  return task;
}

// Equal shares on all cards.
struct Equal {
  Share share;
  uint64_t tensor = 1;
};

uint64_t equal_batch(const Architecture& model, const Task& task, const Equal& equal,
                     uint64_t budget_bytes) {
  return search_batch(task, [&](uint64_t batch) {
    return Memory(model, with_batch(task, batch), equal.tensor).peak_bytes(equal.share) <=
           budget_bytes;
  });
}

SplitPlan equal_plan(const Architecture& model, const Task& task, const SplitRequest& request,
                     const Equal& equal) {
  const uint64_t budget_bytes = smallest_budget(request.cards);
  SplitPlan plan = {.split = request.split};
  plan.largest_batch = equal_batch(model, task, equal, budget_bytes);
  plan.batch = request.has_given_batch ? task.batch : std::max<uint64_t>(1, plan.largest_batch);
  const Memory memory(model, with_batch(task, plan.batch), equal.tensor);
  for (size_t i = 0; i < request.cards.size(); ++i)
    plan.cards.push_back(
        {.card = i, .share = equal.share, .estimate = memory.estimate(equal.share), .time_ns = 0});
  plan.fits = memory.peak_bytes(equal.share) <= budget_bytes;
  return plan;
}

// The first stage of ZeRO that fits, or the last one.
Result<SplitPlan> shard(const Architecture& model, const Task& task, const SplitRequest& request) {
  if (task.use == Use::kInfer)
    return fail(Code::kBadInput,
                "sharding divides what training needs; for inference use --split device-map or "
                "tensor");
  constexpr std::array kAll = {Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients,
                               Sharding::kWeights};
  SplitPlan chosen;
  std::vector<ShardingOption> options;
  for (const Sharding each : kAll) {
    if (each < request.least) continue;
    Equal equal = {.share = whole(model)};
    equal.share.cards = request.cards.size();
    equal.share.sharding = each;
    SplitPlan plan = equal_plan(model, task, request, equal);
    options.push_back({.sharding = each, .largest_batch = plan.largest_batch});
    if (!chosen.fits) chosen = std::move(plan);
  }
  const Memory memory(model, with_batch(task, chosen.batch));
  for (ShardingOption& each : options) {
    Share share = chosen.cards.front().share;
    share.sharding = each.sharding;
    each.card_bytes = memory.peak_bytes(share);
  }
  chosen.shardings = std::move(options);
  return chosen;
}

bool divides(const Architecture& model, uint64_t degree) {
  return std::ranges::all_of(model.blocks, [&](const Block& block) {
    const uint64_t keys = block.attention.kv_heads;
    const bool has_keys = keys % degree == 0 || degree % keys == 0;
    return block.attention.heads % degree == 0 && has_keys && block.mlp.inner % degree == 0;
  });
}

std::string valid_degrees(const Architecture& model) {
  std::string text;
  for (uint64_t degree = 2; degree <= kMaxCards; ++degree) {
    if (divides(model, degree)) text += fmt::format("{}{}", text.empty() ? "" : ", ", degree);
  }
  return text.empty() ? "none" : text;
}

Result<SplitPlan> tensor(const Architecture& model, const Task& task, const SplitRequest& request) {
  const uint64_t degree = request.cards.size();
  if (!divides(model, degree))
    return fail(Code::kBadInput,
                "{} cards cannot divide the model's {} attention heads and its MLP equally; "
                "numbers that can: {}",
                degree, model.blocks.front().attention.heads, valid_degrees(model));
  return equal_plan(model, task, request, {.share = whole(model), .tensor = degree});
}

Result<SplitPlan> divide_layers(const Architecture& model, const Task& task,
                                const SplitRequest& request) {
  const auto layout_of = [&](uint64_t batch) {
    return lay_out(model, with_batch(task, batch), request.split, request.cards);
  };
  SplitPlan plan = {.split = request.split};
  plan.largest_batch =
      search_batch(task, [&](uint64_t batch) { return layout_of(batch).has_value(); });
  plan.batch = request.has_given_batch ? task.batch : std::max<uint64_t>(1, plan.largest_batch);
  VRAM_TRY_ASSIGN(Layout layout, layout_of(plan.batch));
  plan.cards = std::move(layout.cards);
  plan.has_speeds = layout.has_speeds;
  plan.fits = true;
  return plan;
}

}  // namespace

Result<SplitPlan> plan_split(const Architecture& model, const Task& task,
                             const SplitRequest& request) {
  if (request.cards.size() > kMaxCards)
    return fail(Code::kUnsupported, "{} cards are more than {}", request.cards.size(), kMaxCards);
  switch (request.split) {
    case Split::kNone:
      return equal_plan(model, task, request, {.share = whole(model)});
    case Split::kShard:
      return shard(model, task, request);
    case Split::kTensor:
      return tensor(model, task, request);
    case Split::kDeviceMap:
    case Split::kPipeline:
      return divide_layers(model, task, request);
  }
  return fail(Code::kBadInput, "unknown split");
}

std::vector<std::pair<std::string, size_t>> device_map(const Architecture& model,
                                                       const SplitPlan& plan) {
  std::vector<std::pair<std::string, size_t>> map;
  const auto add = [&](const std::vector<std::string>& names, size_t card) {
    for (const std::string& each : names) map.emplace_back(each, card);
  };
  for (const CardShare& each : plan.cards) {
    if (each.share.has_embedding) add(model.names.before, each.card);
    for (size_t i = each.share.first; i < each.share.last; ++i)
      map.emplace_back(fmt::format("{}.{}", model.names.blocks, i), each.card);
    if (!each.share.has_head) continue;
    add(model.names.behind, each.card);
    map.emplace_back(model.names.head, each.card);
  }
  return map;
}

}  // namespace vram::plan
