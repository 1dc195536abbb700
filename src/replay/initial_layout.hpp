// The layout of a device's memory before the first event, as its allocator has to know it to go on
// from there: segments with their stream, pool and address space, and the blocks in them with their
// sizes. What lies between blocks is free, in one piece: free neighbours always merge. Part of
// make_program (program.hpp); linear in the events, but for searches among the initial segments.
#pragma once

#include "replay/baseline.hpp"
#include "replay/program.hpp"
#include "trace/trace.hpp"

namespace vram::replay {

// Fills initial_segments, initial_blocks, knows_layout and native_pools; recorded_calls are known.
void read_layout(const trace::Trace& trace, const trace::DeviceTrace& device, Baseline baseline,
                 Program& program);

}  // namespace vram::replay
