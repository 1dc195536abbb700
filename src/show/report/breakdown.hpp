// Who held a state's memory: one breakdown as a table, the others as a line each. Shared by the
// peak and --at.
#pragma once

#include "explain/report.hpp"
#include "show/draw/page.hpp"
#include "show/report/report_text.hpp"

#include <string_view>

namespace vram::show {

// The most informative breakdown: by line of code with stacks, else by size. Null for a state
// without breakdowns.
[[nodiscard]] const explain::Breakdown* main_breakdown(const explain::State& state,
                                                       bool has_stacks);

// "by name", "by line of your code": the grouping of the main breakdown.
[[nodiscard]] std::string_view phrase_of(const explain::Breakdown& breakdown,
                                         const explain::State& state, bool has_stacks);

// Parameters, gradients, activations, if the recording has names.
void draw_categories(const explain::State& state, const Detail& detail, Page& page);

void draw_breakdowns(const explain::State& state, bool has_stacks, const Detail& detail,
                     Page& page);

}  // namespace vram::show
