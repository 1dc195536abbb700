// Chains as JSON (vram.chain/1, documented in docs/plan.md): what other programs write for the
// planner.
#pragma once

#include "plan/chain.hpp"

#include <string_view>

namespace vram::plan {

// A chain that passed check(). Peaks and gradients that are absent get their smallest valid values;
// unknown keys, numbers below 0 and fractions are errors.
[[nodiscard]] Result<Chain> parse_chain(std::string_view json);

// One JSON document with a newline at its end, with every field. parse_chain() reads it back.
[[nodiscard]] std::string chain_json(const Chain& chain);

}  // namespace vram::plan
