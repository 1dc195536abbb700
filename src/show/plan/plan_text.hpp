// A checkpoint plan for people. Pure functions.
#pragma once

#include "plan/plan.hpp"
#include "show/draw/page.hpp"
#include "show/plan/plan_subject.hpp"

#include <span>
#include <string>

namespace vram::show {

// The schedule by stages, what it saves and costs, and what other solvers find.
[[nodiscard]] std::string draw_plan(const PlanSubject& subject, const plan::Plan& plan,
                                    const TextOptions& options);

// One row for each budget. Requires at least one plan.
[[nodiscard]] std::string draw_sweep(const PlanSubject& subject, std::span<const plan::Plan> plans,
                                     const TextOptions& options);

}  // namespace vram::show
