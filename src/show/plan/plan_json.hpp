// A checkpoint plan for programs: vram.plan/1, documented field by field in docs/json.md. A pure
// function of the plan.
#pragma once

#include "plan/plan.hpp"

#include <string>

namespace vram::show {

// One JSON document with a newline at its end. `chain` is the one that was planned.
[[nodiscard]] std::string plan_json(const plan::Chain& chain, const plan::Plan& plan);

}  // namespace vram::show
