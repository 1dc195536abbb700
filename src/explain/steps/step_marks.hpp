// Step marks: the annotations of the program that mark its steps. Only names; steps.cpp turns them
// into ranges and figures.
#pragma once

#include "explain/site/scopes.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::explain {

struct StepMarks {
  enum class Kind {
    kRegions,  // each scope is one step
    kPeriods,  // one scope is somewhere in each step
  };
  Kind kind = Kind::kRegions;
  bool is_step = false;  // by its name; else a region that repeats, which may be a layer or a
                         // round of a benchmark
  std::vector<uint32_t> scopes;  // indices into Scopes::all, in order, not overlapping
  std::string evidence;
};

// What may mark the steps, best first.
[[nodiscard]] std::vector<StepMarks> find_step_marks(const trace::Tables& tables,
                                                     const Scopes& scopes);

// Is this the name of a training step: "step", "train_step 12", "## iteration ##", "trainingBatch"?
// Not "Optimizer.step".
[[nodiscard]] bool names_a_step(std::string_view name);

}  // namespace vram::explain
