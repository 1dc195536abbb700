// Who held a state's memory: one breakdown as a table, the others as a line each. Shared by the
// peak and --at.
#pragma once

#include "explain/report.hpp"
#include "show/page.hpp"

namespace vram::show {

// The breakdown that says most: by line of code where there are stacks, else by size. Null for a
// state without breakdowns.
[[nodiscard]] const explain::Breakdown* main_breakdown(const explain::State& state,
                                                       bool has_stacks);

void draw_breakdowns(const explain::State& state, bool has_stacks, Page& page);

}  // namespace vram::show
