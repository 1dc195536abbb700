// A lower bound on the time of every schedule within a budget, also of those that no solver here
// considers.
#pragma once

#include "plan/chain.hpp"

namespace vram::plan {

// When the last stage's backward begins, each earlier stage either has kept what one of its options
// keeps, or its forward will run again. Which of them may keep is a knapsack; its linear relaxation
// bounds the time that is added. O(options * log(options)).
[[nodiscard]] uint64_t lower_bound_ns(const Chain& chain, uint64_t budget_bytes);

}  // namespace vram::plan
