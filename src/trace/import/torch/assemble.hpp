// assemble(): builds a Trace from the parts of a snapshot: events and segments by device,
// annotations, flattened settings, deduced pools if the entries do not contain them, and notes
// about missing parts.
#pragma once

#include "base/result.hpp"
#include "trace/import/pickle/machine.hpp"
#include "trace/import/torch/collected.hpp"

namespace vram::trace::torch {

// Moves the data out of `collected`. Errors: kBadInput if the pickle is valid but no snapshot, with
// what was expected and what was found.
[[nodiscard]] Result<Trace> assemble(Collected& collected, const pickle::Outcome& outcome);

}  // namespace vram::trace::torch
