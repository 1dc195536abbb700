// A checkpoint plan for people. A pure function of the report.
#pragma once

#include "plan/plan.hpp"
#include "show/draw/page.hpp"

#include <string>

namespace vram::show {

struct PlanReport {
  std::string path;  // of the file that was planned
  std::string card;  // whose memory the budget is; empty if it was given in bytes
  plan::Chain chain;
  plan::Plan plan;
};

[[nodiscard]] std::string draw_plan(const PlanReport& report, const TextOptions& options);

}  // namespace vram::show
