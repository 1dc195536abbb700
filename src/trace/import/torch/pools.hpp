// Pools of a recording whose entries do not name them (before PyTorch 2.12).
#pragma once

#include "trace/trace.hpp"

namespace vram::trace::torch {

// Deduces the pool of each event. A segment belongs to one pool for its life: going backwards from
// the end state, an address is in a segment with a known pool while that segment exists; elsewhere
// the pool becomes kUnknownPool. A file whose segments are all in the default pool is not changed.
// Linear in the events, except for a search among the segments.
void deduce_pools(Trace& trace);

}  // namespace vram::trace::torch
