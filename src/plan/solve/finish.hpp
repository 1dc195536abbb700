// The end of every solver: runs its operations through verify().
#pragma once

#include "plan/chain.hpp"
#include "plan/schedule.hpp"

#include <string_view>

namespace vram::plan {

// The schedule and its cost, within any budget. An error is a bug of the solver.
[[nodiscard]] Result<Schedule> measured(const Chain& chain, std::string_view solver,
                                        std::vector<Operation> operations);
// The schedule if it fits, else an error with what it needs.
[[nodiscard]] Result<Schedule> if_it_fits(Schedule schedule, uint64_t budget_bytes);

}  // namespace vram::plan
