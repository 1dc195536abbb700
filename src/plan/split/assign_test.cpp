#include "plan/split/assign.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace vram::plan {
namespace {

// Parts with bytes and times, on cards with a capacity and a speed. In a pipeline, the first cards
// hold more copies of what they keep.
struct Problem {
  std::vector<uint64_t> bytes;
  std::vector<uint64_t> times;
  std::vector<CardKind> kinds;
  std::vector<uint64_t> slowness;  // of each kind
  Objective objective = Objective::kSum;

  [[nodiscard]] AssignRequest request() const {
    return {.parts = bytes.size(),
            .kinds = kinds,
            .cards = {},
            .objective = objective,
            .cost = [this](const Range& range) { return cost(range); }};
  }
  [[nodiscard]] RangeCost cost(const Range& range) const {
    RangeCost cost;
    for (size_t i = range.first; i < range.last; ++i) {
      cost.bytes += bytes[i] * (10 - range.position);
      cost.time_ns += times[i] * slowness[range.kind];
    }
    return cost;
  }
};

Problem random_problem(std::mt19937& random) {
  const auto draw = [&](uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random);
  };
  Problem problem;
  for (uint64_t i = draw(1, 8); i > 0; --i) {
    problem.bytes.push_back(draw(1, 9));
    problem.times.push_back(draw(1, 5));
  }
  for (uint64_t left = draw(1, 3); left > 0;) {
    const uint64_t count = draw(1, left);
    problem.kinds.push_back({draw(40, 400), count});
    problem.slowness.push_back(draw(1, 3));
    left -= count;
  }
  problem.objective = draw(0, 1) == 0 ? Objective::kSum : Objective::kSlowest;
  return problem;
}

// Every way to cut the parts and to order the cards.
class Search {
 public:
  explicit Search(const Problem& problem) : problem_(problem) {
    left_.reserve(problem.kinds.size());
    for (const CardKind& each : problem.kinds) left_.push_back(each.count);
    go(0, 0, {});
  }
  [[nodiscard]] const std::optional<Assignment>& best() const { return best_; }

 private:
  void go(size_t part, size_t position, const Assignment& so_far) {
    if (part == problem_.bytes.size()) {
      if (!best_ || so_far.is_better_than(*best_)) best_ = so_far;
      return;
    }
    for (size_t kind = 0; kind < left_.size(); ++kind) {
      if (left_[kind] == 0) continue;
      --left_[kind];
      for (size_t last = part + 1; last <= problem_.bytes.size(); ++last)
        add({part, last, kind, position}, so_far);
      ++left_[kind];
    }
  }
  void add(const Range& range, Assignment next) {
    const RangeCost cost = problem_.cost(range);
    const uint64_t capacity = problem_.kinds[range.kind].capacity_bytes;
    if (cost.bytes > capacity) return;
    next.time_ns = problem_.objective == Objective::kSum ? next.time_ns + cost.time_ns
                                                         : std::max(next.time_ns, cost.time_ns);
    next.fullest_millionths = std::max(next.fullest_millionths,
                                       static_cast<uint64_t>(1e6 * static_cast<double>(cost.bytes) /
                                                             static_cast<double>(capacity)));
    next.ranges.push_back(range);
    go(range.last, range.position + 1, next);
  }

  const Problem& problem_;
  std::vector<size_t> left_;
  std::optional<Assignment> best_;
};

TEST(Assign, IsAsGoodAsASearchOfAllAssignments) {
  std::mt19937 random(20261124);
  int fitting = 0;
  for (int i = 0; i < 600; ++i) {
    const Problem problem = random_problem(random);
    const auto found = assign(problem.request());
    const Search search(problem);
    ASSERT_EQ(found.has_value(), search.best().has_value()) << i;
    if (!found) continue;
    ++fitting;
    EXPECT_EQ(found->time_ns, search.best()->time_ns) << i;
    EXPECT_EQ(found->fullest_millionths, search.best()->fullest_millionths) << i;
  }
  EXPECT_GT(fitting, 200);
  EXPECT_LT(fitting, 600);
}

TEST(Assign, CoversAllPartsWithinTheCapacitiesAndUsesNoCardTwice) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const Problem problem = random_problem(random);
    const auto found = assign(problem.request());
    if (!found) continue;
    std::vector<size_t> used(problem.kinds.size());
    size_t next = 0;
    for (const Range& range : found->ranges) {
      EXPECT_EQ(range.first, next);
      EXPECT_LT(range.first, range.last);
      EXPECT_LE(problem.cost(range).bytes, problem.kinds[range.kind].capacity_bytes);
      EXPECT_EQ(range.position, static_cast<size_t>(&range - found->ranges.data()));
      ++used[range.kind];
      next = range.last;
    }
    EXPECT_EQ(next, problem.bytes.size());
    for (size_t kind = 0; kind < used.size(); ++kind)
      EXPECT_LE(used[kind], problem.kinds[kind].count);
  }
}

TEST(Assign, UsesExactlyTheCardsThatAreRequired) {
  Problem problem = {.bytes = {1, 1, 1, 1},
                     .times = {1, 1, 1, 1},
                     .kinds = {{1000, 4}},
                     .slowness = {1},
                     .objective = Objective::kSlowest};
  AssignRequest request = problem.request();
  request.cards = 2;
  const auto found = assign(request).value();
  ASSERT_EQ(found.ranges.size(), 2u);
  EXPECT_EQ(found.time_ns, 2u);
  request.cards = 5;
  EXPECT_EQ(assign(request).error().code, Code::kTooLarge);
}

TEST(Assign, RefusesTooManyDifferentCards) {
  Problem problem = {.bytes = {1},
                     .times = {1},
                     .kinds = std::vector<CardKind>(13),
                     .slowness = std::vector<uint64_t>(13, 1)};
  EXPECT_EQ(assign(problem.request()).error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace vram::plan
