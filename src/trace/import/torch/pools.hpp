// Pools of a recording whose entries do not name them (before PyTorch 2.12).
#pragma once

#include "trace/trace.hpp"

namespace vram::trace::torch {

// A segment belongs to one pool for its life. Going backwards from the end state, an address lies
// in a segment whose pool is known as long as that segment lived; elsewhere the pool becomes
// kUnknownPool. A file whose segments are all of the default pool is left as it is. Linear in the
// events but for a search among the segments.
void deduce_pools(Trace& trace);

}  // namespace vram::trace::torch
