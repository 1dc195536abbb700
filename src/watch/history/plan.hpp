// How a question to the history is answered: by which grain, from when, in steps of what length.
// Pure functions.
#pragma once

#include "watch/history/history.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace vram::watch {

struct QueryScope {
  HistoryKeep keep;
  std::optional<int64_t> oldest_ns;
  std::optional<int64_t> newest_ns;
};

struct QueryPlan {
  size_t grain = 0;     // place in kGrains
  int64_t from_ms = 0;  // a multiple of the step
  int64_t to_ms = 0;    // exclusive
  int64_t step_ms = 1;  // a multiple of the grain
};

// The coarsest grain that the step allows; a coarser one, and a longer step with it, where finer
// ones are not kept for as long.
[[nodiscard]] QueryPlan plan_query(const HistoryQuery& query, const QueryScope& scope);
[[nodiscard]] QueryPlan plan_query(const ProcessQuery& query);

}  // namespace vram::watch
