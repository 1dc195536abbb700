// What a recording says about the driver: the calls its allocator made, the memory that was there
// before, and between which sizes the limit lay that refused it. Part of make_program
// (program.hpp); linear in the events.
#pragma once

#include "replay/program.hpp"
#include "trace/trace.hpp"

namespace vram::replay {

// Fills recorded_calls, initial_segments, largest_reserved_bytes and smallest_refused_bytes.
void read_recorded_segments(const trace::Trace& trace, const trace::DeviceTrace& device,
                            Program& program);

}  // namespace vram::replay
