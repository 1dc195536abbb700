// Search: the fastest schedule of a short chain by Dijkstra's algorithm over the states of memory,
// without any recurrence: what the solvers are compared with. Exponential in the stages.
#pragma once

#include "plan/chain.hpp"

#include <optional>

namespace vram::plan::testing {

enum class Freedom : uint8_t {
  // A checkpoint stays until the backward that reads it, and a backward runs as soon as it can.
  kPersistent,
  // Anything may be freed and computed again at any time.
  kAny,
};

// Of the fastest schedule within the budget; none if there is no schedule.
[[nodiscard]] std::optional<uint64_t> fastest_ns(const Chain& chain, uint64_t budget_bytes,
                                                 Freedom freedom);

}  // namespace vram::plan::testing
