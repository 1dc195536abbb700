// The state at one moment as JSON: totals, who held what, what was wasted. Part of report_json.
#pragma once

#include "base/json.hpp"
#include "explain/report.hpp"

#include <cstddef>
#include <vector>

namespace vram::show {

[[nodiscard]] Json json_stack(const std::vector<explain::Frame>& stack);

// {time_ns, event, step, and the four totals}
[[nodiscard]] Json json_moment(const explain::Moment& moment, const explain::Steps& steps);
[[nodiscard]] Json json_waste(const explain::Waste& waste);
[[nodiscard]] Json json_pinners(const std::vector<explain::Pinner>& pinners);
[[nodiscard]] Json json_breakdowns(const explain::State& state, size_t top);
// The holders of the main breakdown.
[[nodiscard]] Json json_main_holders(const explain::State& state, bool has_stacks, size_t top);
[[nodiscard]] Json json_state(const explain::State& state, const explain::Steps& steps, size_t top);

}  // namespace vram::show
