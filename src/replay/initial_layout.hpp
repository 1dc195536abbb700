// Reconstructs the device's memory before the first event as its allocator needs it: segments with
// their stream, pool and address space, and their blocks with sizes. The space between blocks is
// one free block, since free neighbours always merge. Part of make_program (program.hpp); linear in
// the events, except for searches among the initial segments.
#pragma once

#include "replay/baseline.hpp"
#include "replay/program.hpp"
#include "trace/trace.hpp"

namespace vram::replay {

// Sets initial_segments, initial_blocks, knows_layout and native_pools; requires recorded_calls.
void read_layout(const trace::Trace& trace, const trace::DeviceTrace& device, Baseline baseline,
                 Program& program);

}  // namespace vram::replay
