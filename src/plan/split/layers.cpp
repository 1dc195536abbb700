#include "plan/split/layers.hpp"

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "plan/model/parts.hpp"
#include "plan/model/weights.hpp"
#include "plan/split/assign.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

namespace vram::plan {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kNsPerSecond = 1e9;

double number(uint64_t value) { return static_cast<double>(value); }

// Multiplications and additions for one token: two for each number of the matrices it meets.
double matrix_flops(std::span<const Weight> weights, const Block* block) {
  double flops = 0;
  for (const Weight& each : weights) {
    if (each.kind != WeightKind::kLinear) continue;
    const bool is_expert = block != nullptr && block->experts && each.copies > 1;
    const double copies = is_expert ? number(block->experts->active) : number(each.copies);
    flops += 2 * number(each.outputs) * number(each.inputs) * copies;
  }
  return flops;
}

// Of queries with keys and of weights with values; a causal token meets half of the others.
double attention_flops(const Attention& attention, const Task& task, bool is_causal) {
  const double seen = number(std::min(task.sequence, attention.window.value_or(task.sequence)));
  return 4 * number(attention.query_width()) * seen * (is_causal ? 0.5 : 1);
}

// A backward computes the gradients of results, and those of weights that change.
double passes(const Task& task) {
  const double backward = task.use == Use::kTrain ? 2 : 1;
  return 1 + backward + (task.checkpoints ? 1 : 0);
}

// Of cards whose rates are not all known: any speed, the same for each.
constexpr CardSpeed kAnySpeed = {.flops_per_s = 100e12, .bytes_per_s = 1e12};

struct Kind {
  Card card;
  std::vector<size_t> numbers;  // of the cards
  CardSpeed speed = kAnySpeed;
};

std::vector<Kind> kinds_of(const std::vector<Card>& cards) {
  std::vector<Kind> kinds;
  for (size_t i = 0; i < cards.size(); ++i) {
    auto found = std::ranges::find(kinds, cards[i], &Kind::card);
    if (found == kinds.end()) found = kinds.insert(kinds.end(), {cards[i], {}, kAnySpeed});
    found->numbers.push_back(i);
  }
  return kinds;
}

bool set_speeds(std::vector<Kind>& kinds, Precision precision) {
  std::vector<CardSpeed> speeds;
  for (const Kind& each : kinds) {
    const auto speed = speed_of(each.card.name, precision);
    if (!speed) return false;
    speeds.push_back(*speed);
  }
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i].speed = speeds[i];
  return true;
}

class Planner {
 public:
  Planner(const Architecture& model, const Task& task, Split split, const std::vector<Card>& cards)
      : model_(model),
        split_(split),
        card_count_(cards.size()),
        head_is_first_(model.is_head_tied && split == Split::kDeviceMap),
        runs_backward_(task.use != Use::kInfer),
        memory_(model, task),
        works_(works_of(model, task)),
        kinds_(kinds_of(cards)),
        has_speeds_(set_speeds(kinds_, task.precision)) {}

  Result<Layout> plan();

 private:
  [[nodiscard]] size_t part_count() const {
    return model_.blocks.size() + (head_is_first_ ? 1 : 2);
  }
  [[nodiscard]] Share share_of(const Range& range) const;
  [[nodiscard]] uint64_t time_ns(const Share& share, const CardSpeed& speed) const;
  Result<Assignment> assignment();
  [[nodiscard]] Layout layout_of(const Assignment& assignment) const;
  uint64_t peak_bytes(const Range& range, const Share& share);

  const Architecture& model_;
  Split split_;
  size_t card_count_;
  bool head_is_first_;
  bool runs_backward_;
  Memory memory_;
  Works works_;
  std::vector<Kind> kinds_;
  bool has_speeds_;
  std::unordered_map<uint64_t, uint64_t> peaks_;  // by the range and micro-batches in flight
};

Share Planner::share_of(const Range& range) const {
  Share share;
  const size_t blocks = model_.blocks.size();
  share.has_embedding = range.first == 0;
  share.has_head = head_is_first_ ? share.has_embedding : range.last == part_count();
  share.first = std::max<size_t>(range.first, 1) - 1;
  share.last = std::min(range.last, blocks + 1) - 1;
  share.last = std::max(share.first, share.last);
  // The first stage has started on as many micro-batches as there are stages before the first
  // comes back.
  if (split_ == Split::kPipeline && runs_backward_) share.in_flight = card_count_ - range.position;
  return share;
}

uint64_t Planner::time_ns(const Share& share, const CardSpeed& speed) const {
  PartWork work;
  for (size_t i = share.first; i < share.last; ++i) work += works_.blocks[i];
  if (share.has_head) work += works_.head;
  return work.time_ns(speed);
}

uint64_t Planner::peak_bytes(const Range& range, const Share& share) {
  constexpr uint64_t kParts = kMaxLayers + 3;
  const uint64_t key = (range.first * kParts + range.last) * (kMaxCards + 1) + share.in_flight;
  const auto [found, is_new] = peaks_.try_emplace(key, 0);
  if (is_new) found->second = memory_.peak_bytes(share);
  return found->second;
}

// A pipeline has a stage on each card.
Result<Assignment> Planner::assignment() {
  AssignRequest request;
  request.parts = part_count();
  for (const Kind& each : kinds_)
    request.kinds.push_back({each.card.budget_bytes, each.numbers.size()});
  if (split_ == Split::kPipeline) {
    request.cards = card_count_;
    request.objective = Objective::kSlowest;
  }
  request.cost = [this](const Range& range) {
    const Share share = share_of(range);
    return RangeCost{peak_bytes(range, share), time_ns(share, kinds_[range.kind].speed)};
  };
  return assign(request);
}

Layout Planner::layout_of(const Assignment& assignment) const {
  Layout layout;
  layout.has_speeds = has_speeds_;
  std::vector<size_t> used(kinds_.size());
  for (const Range& range : assignment.ranges) {
    const Kind& kind = kinds_[range.kind];
    CardShare& card = layout.cards.emplace_back();
    card.card = kind.numbers[used[range.kind]++];
    card.share = share_of(range);
    card.estimate = memory_.estimate(card.share);
    card.time_ns = time_ns(card.share, kind.speed);
  }
  return layout;
}

Result<Layout> Planner::plan() {
  const auto found = assignment();
  if (found) return layout_of(*found);
  if (found.error().code != Code::kTooLarge) return tl::unexpected(found.error());
  uint64_t budget = 0;
  for (const Kind& each : kinds_) budget += each.card.budget_bytes * each.numbers.size();
  return fail(Code::kTooLarge,
              "the layers do not fit: on one card they would need {}, and the cards have {} "
              "together, of which every card needs some",
              format_bytes(memory_.peak_bytes(whole(model_))), format_bytes(budget));
}

}  // namespace

std::optional<CardSpeed> speed_of(const std::string& card, Precision precision) {
  static const Json kRates = Json::parse(rates_text());
  const auto found = kRates["gpus"].find(card);
  if (found == kRates["gpus"].end()) return std::nullopt;
  const char* type = precision == Precision::kFp32 ? "fp32" : "bf16";
  const auto fallback = found->contains(type) ? type : "fp32";
  const Json& assumed = kRates["assumed"];
  return CardSpeed{
      .flops_per_s = found->at(fallback).get<double>() * kTera * assumed["compute"].get<double>(),
      .bytes_per_s = found->at("memory").get<double>() * kGiga * assumed["memory"].get<double>()};
}

PartWork& PartWork::operator+=(const PartWork& other) {
  flops += other.flops;
  bytes += other.bytes;
  return *this;
}

uint64_t PartWork::time_ns(const CardSpeed& speed) const {
  return static_cast<uint64_t>(kNsPerSecond *
                               (flops / speed.flops_per_s + bytes / speed.bytes_per_s));
}

Works works_of(const Architecture& model, const Task& task) {
  Works works;
  if (task.use == Use::kInfer) {
    const Parts parts = parts_of(model, task, 1);
    for (size_t i = 0; i < model.blocks.size(); ++i)
      works.blocks.push_back({.bytes = number(parts.blocks[i].weights + parts.cache[i])});
    works.head.bytes = number(parts.head.weights + parts.tied.weights);
    return works;
  }
  const double tokens = number(task.tokens()) * passes(task);
  for (const Block& block : model.blocks)
    works.blocks.push_back(
        {.flops = tokens * (matrix_flops(weights_of(block), &block) +
                            attention_flops(block.attention, task, model.is_causal))});
  works.head.flops = tokens * 2 * number(model.vocabulary) * number(model.hidden);
  return works;
}

Result<Layout> lay_out(const Architecture& model, const Task& task, Split split,
                       const std::vector<Card>& cards) {
  return Planner(model, task, split, cards).plan();
}

}  // namespace vram::plan
