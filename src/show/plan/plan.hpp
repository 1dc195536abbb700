// A checkpoint plan for people, and for programs: vram.plan/1 and vram.plan_sweep/1, documented
// field by field in docs/json.md. Pure functions.
#pragma once

#include "plan/chain_of.hpp"
#include "plan/plan.hpp"
#include "show/draw/page.hpp"

#include <optional>
#include <span>
#include <string>

namespace vram::show {

// What was planned: the chain, and where it came from. Plain values.
struct PlanSubject {
  std::string path = {};
  std::string card = {};  // whose memory the budget is; empty if it was given in bytes
  plan::Chain chain = {};
  std::optional<plan::RecordedStep> recorded = {};  // if the chain was made from a trace
};

// One JSON document with a newline at its end.
[[nodiscard]] std::string plan_json(const PlanSubject& subject, const plan::Plan& plan);

// The same of plans for several budgets of one subject.
[[nodiscard]] std::string sweep_json(const PlanSubject& subject, std::span<const plan::Plan> plans);

// The schedule by stages, what it saves and costs, and what other solvers find.
[[nodiscard]] std::string draw_plan(const PlanSubject& subject, const plan::Plan& plan,
                                    const TextOptions& options);

// One row for each budget. Requires at least one plan.
[[nodiscard]] std::string draw_sweep(const PlanSubject& subject, std::span<const plan::Plan> plans,
                                     const TextOptions& options);

}  // namespace vram::show
