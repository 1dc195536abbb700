#include "plan/split/layers.hpp"

#include "base/bytes.hpp"
#include "plan/split/assign.hpp"
#include "plan/split/speed.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

namespace vram::plan {
namespace {

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

Result<Layout> lay_out(const Architecture& model, const Task& task, Split split,
                       const std::vector<Card>& cards) {
  return Planner(model, task, split, cards).plan();
}

}  // namespace vram::plan
