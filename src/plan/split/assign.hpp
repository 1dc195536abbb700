// Assigns consecutive parts of a model to cards: the fastest assignment that fits, and of equally
// fast ones the one whose fullest card is least full. Exact, by dynamic programming over (parts
// assigned, cards used of each kind), so the order of the cards is chosen too. Pure functions.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace vram::plan {

// Cards that are alike.
struct CardKind {
  uint64_t capacity_bytes = 1;
  size_t count = 1;
};

// Parts [first, last) on a card.
struct Range {
  size_t first = 0;
  size_t last = 0;
  size_t kind = 0;
  size_t position = 0;  // 0: of the first card in the order of the parts
};

struct RangeCost {
  uint64_t bytes = 0;
  uint64_t time_ns = 0;
};

enum class Objective : uint8_t {
  kSum,      // one card runs after the other
  kSlowest,  // all run at once, as in a full pipeline
};

struct AssignRequest {
  size_t parts = 0;
  std::vector<CardKind> kinds;
  // Exactly so many cards are used; none: as many as is best.
  std::optional<size_t> cards{};
  Objective objective = Objective::kSum;
  // Of a range with at least one part. `bytes` never falls when a range grows.
  std::function<RangeCost(const Range&)> cost;
};

struct Assignment {
  std::vector<Range> ranges;        // in the order of the parts
  uint64_t time_ns = 0;             // by the objective
  uint64_t fullest_millionths = 0;  // of its capacity

  [[nodiscard]] bool is_better_than(const Assignment& other) const;
};

// More combinations of used cards are refused, which only many different cards have.
inline constexpr size_t kMaxCombinations = 1200;

// kTooLarge: nothing fits. kUnsupported: too many combinations.
[[nodiscard]] Result<Assignment> assign(const AssignRequest& request);

}  // namespace vram::plan
