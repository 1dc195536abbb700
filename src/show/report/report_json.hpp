// The report for programs: vram.report/1, documented field by field in docs/json.md. A pure
// function of the report.
#pragma once

#include "base/json.hpp"
#include "explain/report.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace vram::show {

struct JsonOptions {
  size_t top = 50;  // holders listed in each breakdown; 0 = all
};

// A JSON document with a final newline. Keys have a fixed order; unknown values are null, never 0.
[[nodiscard]] std::string report_json(const explain::Report& report,
                                      const JsonOptions& options = {});

// The state at one moment as JSON: totals, who held what, what was wasted. Part of report_json.

[[nodiscard]] Json json_stack(const std::vector<explain::Frame>& stack);

// {time_ns, event, step, and the four totals}
[[nodiscard]] Json json_moment(const explain::Moment& moment, const explain::Steps& steps);
[[nodiscard]] Json json_waste(const explain::Waste& waste);
[[nodiscard]] Json json_pinners(const std::vector<explain::Pinner>& pinners);
[[nodiscard]] Json json_breakdowns(const explain::State& state, size_t top);
// The holders of the main breakdown.
[[nodiscard]] Json json_main_holders(const explain::State& state, bool has_stacks, size_t top);
[[nodiscard]] Json json_rest(const explain::Rest& rest);
[[nodiscard]] Json json_marks(const explain::Marks& marks);
[[nodiscard]] Json json_state(const explain::State& state, const explain::Steps& steps, size_t top);

}  // namespace vram::show
