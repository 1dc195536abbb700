// Step marks: what the program's own annotations say about where its steps are. Names only;
// steps.cpp turns them into ranges and figures.
#pragma once

#include "explain/site/scopes.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::explain {

struct StepMarks {
  enum class Kind {
    kNone,
    kRegions,  // each scope is one step
    kPeriods,  // one scope lies somewhere in each step
  };
  Kind kind = Kind::kNone;
  std::vector<uint32_t> scopes;  // indices into Scopes::all, in order, not overlapping
  std::string evidence;
};

[[nodiscard]] StepMarks find_step_marks(const trace::Tables& tables, const Scopes& scopes);

// Is this the name of a training step: "step", "train_step 12", "## iteration ##", "trainingBatch"?
// Not "Optimizer.step".
[[nodiscard]] bool names_a_step(std::string_view name);

}  // namespace vram::explain
