#include "plan/split/assign.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace vram::plan {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
constexpr double kMillion = 1e6;

struct Cell {
  uint64_t time_ns = kNever;
  uint64_t fullest = 0;  // in millionths
  size_t first = 0;      // of the last range
  size_t kind = 0;
};

// The numbers of used cards of each kind, as one number: digits of a mixed radix.
class Combinations {
 public:
  explicit Combinations(std::span<const CardKind> kinds) {
    for (const CardKind& each : kinds) {
      steps_.push_back(size_);
      counts_.push_back(each.count);
      size_ *= each.count + 1;
      if (size_ > kMaxCombinations) return;
    }
  }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] size_t step(size_t kind) const { return steps_[kind]; }
  [[nodiscard]] size_t used(size_t combination, size_t kind) const {
    return combination / steps_[kind] % (counts_[kind] + 1);
  }
  [[nodiscard]] bool can_use(size_t combination, size_t kind) const {
    return used(combination, kind) < counts_[kind];
  }
  [[nodiscard]] size_t total(size_t combination) const {
    size_t total = 0;
    for (size_t kind = 0; kind < steps_.size(); ++kind) total += used(combination, kind);
    return total;
  }

 private:
  std::vector<size_t> steps_;
  std::vector<size_t> counts_;
  size_t size_ = 1;
};

class Solver {
 public:
  Solver(const AssignRequest& request, const Combinations& combinations)
      : request_(request), combinations_(combinations) {}

  // The best with no range slower than `limit_ns`, if time is limited: then only fullness counts.
  std::optional<Assignment> solve(std::optional<uint64_t> limit_ns) {
    limit_ns_ = limit_ns;
    cells_.assign((request_.parts + 1) * combinations_.size(), {});
    cells_[0].time_ns = 0;
    // A combination with one more card has a larger number.
    for (size_t combination = 0; combination < combinations_.size(); ++combination)
      for (size_t part = 0; part < request_.parts; ++part) extend(part, combination);
    return best();
  }

 private:
  [[nodiscard]] Cell& cell(size_t part, size_t combination) {
    return cells_[combination * (request_.parts + 1) + part];
  }

  // From the assignment of `part` parts to those with one more card.
  void extend(size_t part, size_t combination) {
    const Cell from = cell(part, combination);
    if (from.time_ns == kNever) return;
    const size_t position = combinations_.total(combination);
    if (request_.cards && position >= *request_.cards) return;
    for (size_t kind = 0; kind < request_.kinds.size(); ++kind) {
      if (!combinations_.can_use(combination, kind)) continue;
      for (size_t last = part + 1; last <= request_.parts; ++last) {
        const Range range = {part, last, kind, position};
        const RangeCost cost = request_.cost(range);
        if (cost.bytes > request_.kinds[kind].capacity_bytes) break;
        if (limit_ns_ && cost.time_ns > *limit_ns_) continue;
        improve(cell(last, combination + combinations_.step(kind)), from, range, cost);
      }
    }
  }

  void improve(Cell& to, const Cell& from, const Range& range, const RangeCost& cost) const {
    const auto capacity = static_cast<double>(request_.kinds[range.kind].capacity_bytes);
    const auto share = static_cast<uint64_t>(kMillion * static_cast<double>(cost.bytes) / capacity);
    const Cell next = {.time_ns = time(from.time_ns, cost.time_ns),
                       .fullest = std::max(from.fullest, share),
                       .first = range.first,
                       .kind = range.kind};
    if (rank(next) < rank(to)) to = next;
  }

  [[nodiscard]] uint64_t time(uint64_t before, uint64_t range) const {
    if (limit_ns_) return 0;
    return request_.objective == Objective::kSum ? before + range : std::max(before, range);
  }
  static std::tuple<uint64_t, uint64_t> rank(const Cell& cell) {
    return {cell.time_ns, cell.fullest};
  }

  std::optional<Assignment> best() {
    size_t found = combinations_.size();
    for (size_t i = 0; i < combinations_.size(); ++i) {
      const Cell& each = cell(request_.parts, i);
      if (each.time_ns == kNever) continue;
      if (request_.cards && combinations_.total(i) != *request_.cards) continue;
      if (found == combinations_.size() || rank(each) < rank(cell(request_.parts, found)))
        found = i;
    }
    if (found == combinations_.size()) return std::nullopt;
    return walk_back(found);
  }

  Assignment walk_back(size_t combination) {
    Assignment assignment;
    assignment.fullest_millionths = cell(request_.parts, combination).fullest;
    assignment.time_ns = cell(request_.parts, combination).time_ns;
    for (size_t part = request_.parts; part > 0;) {
      const Cell& each = cell(part, combination);
      combination -= combinations_.step(each.kind);
      assignment.ranges.push_back({each.first, part, each.kind, combinations_.total(combination)});
      part = each.first;
    }
    std::ranges::reverse(assignment.ranges);
    return assignment;
  }

  const AssignRequest& request_;
  const Combinations& combinations_;
  std::optional<uint64_t> limit_ns_;
  std::vector<Cell> cells_;
};

}  // namespace

bool Assignment::is_better_than(const Assignment& other) const {
  return std::tuple(time_ns, fullest_millionths) <
         std::tuple(other.time_ns, other.fullest_millionths);
}

Result<Assignment> assign(const AssignRequest& request) {
  const Combinations combinations(request.kinds);
  if (combinations.size() > kMaxCombinations)
    return fail(Code::kUnsupported,
                "{} kinds of cards have too many combinations; with up to 10 cards, or up to 64 "
                "of one kind, there are few enough",
                request.kinds.size());
  Solver solver(request, combinations);
  auto fastest = solver.solve({});
  if (!fastest) return fail(Code::kTooLarge, "the layers do not fit on these cards");
  if (request.objective == Objective::kSum) return *std::move(fastest);
  // The least full assignment need not begin with the fastest ranges if only the slowest counts.
  auto least_full = solver.solve(fastest->time_ns);
  VRAM_CHECK(least_full.has_value());
  least_full->time_ns = fastest->time_ns;
  return *std::move(least_full);
}

}  // namespace vram::plan
