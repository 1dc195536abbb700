// A checkpoint plan for programs: vram.plan/1 and vram.plan_sweep/1, documented field by field in
// docs/json.md. Pure functions.
#pragma once

#include "plan/plan.hpp"
#include "show/plan/plan_subject.hpp"

#include <span>
#include <string>

namespace vram::show {

// One JSON document with a newline at its end.
[[nodiscard]] std::string plan_json(const PlanSubject& subject, const plan::Plan& plan);

// The same of plans for several budgets of one subject.
[[nodiscard]] std::string sweep_json(const PlanSubject& subject, std::span<const plan::Plan> plans);

}  // namespace vram::show
