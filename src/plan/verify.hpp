// verify: runs a schedule in exact bytes and nanoseconds. It shares no arithmetic with the solvers,
// so that each checks the other; every schedule that this module returns has passed it.
#pragma once

#include "plan/chain.hpp"
#include "plan/schedule.hpp"

#include <span>

namespace vram::plan {

// Fails if an operation uses what is not there, computes what is already there, or frees what is
// still needed; if not every backward ran once, in order; if anything but the input and gradients
// is left at the end; or if the peak is above the budget.
[[nodiscard]] Result<Cost> verify(const Chain& chain, std::span<const Operation> operations,
                                  uint64_t budget_bytes);

}  // namespace vram::plan
