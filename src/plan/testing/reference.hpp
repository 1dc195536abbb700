// What the solvers are compared with: a search of all schedules, and the dynamic program as it is
// published.
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

// The time of the fastest schedule of a short chain within the budget, by Dijkstra's algorithm over
// the states of memory, without any recurrence. Exponential in the stages. None if there is no
// schedule.
[[nodiscard]] std::optional<uint64_t> fastest_ns(const Chain& chain, uint64_t budget_bytes,
                                                 Freedom freedom);

// The time of the fastest persistent schedule within the budget by the dynamic program of the rotor
// as it is published, with every interval and one slot a byte. O(stages^3 * bytes). None if there
// is none.
[[nodiscard]] std::optional<uint64_t> full_table_ns(const Chain& chain, uint64_t budget_bytes);

}  // namespace vram::plan::testing
