// The dynamic program of the rotor as it is published, with every interval and one slot a byte:
// what the windowed one is compared with. O(stages^3 * bytes).
#pragma once

#include "plan/chain.hpp"

#include <optional>

namespace vram::plan::testing {

// The time of the fastest persistent schedule within the budget; none if there is none.
[[nodiscard]] std::optional<uint64_t> full_table_ns(const Chain& chain, uint64_t budget_bytes);

}  // namespace vram::plan::testing
