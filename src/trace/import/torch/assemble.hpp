// assemble(): builds a Trace from the parts of a snapshot: events and segments by device,
// annotations, flattened settings, deduced pools if the entries do not contain them, and notes
// about missing parts.
#pragma once

#include "base/result.hpp"
#include "trace/import/pickle/machine.hpp"
#include "trace/import/torch/collected.hpp"
#include "trace/trace.hpp"

namespace vram::trace::torch {

// Moves the data out of `collected`. Errors: kBadInput if the pickle is valid but no snapshot, with
// what was expected and what was found.
[[nodiscard]] Result<Trace> assemble(Collected& collected, const pickle::Outcome& outcome);

// Pools of a recording whose entries do not name them (before PyTorch 2.12).

// Deduces the pool of each event. A segment belongs to one pool for its life: going backwards from
// the end state, an address is in a segment with a known pool while that segment exists; elsewhere
// the pool becomes kUnknownPool. A file whose segments are all in the default pool is not changed.
// Linear in the events, except for a search among the segments.
void deduce_pools(Trace& trace);

}  // namespace vram::trace::torch
