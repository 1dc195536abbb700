// What a recording tells of the limit that its process had: bounds from what was granted, refused
// and collected (part of make_program; linear in the events), and a limit between them.
#pragma once

#include "replay/program.hpp"
#include "replay/replay.hpp"
#include "trace/trace.hpp"

#include <optional>

namespace vram::replay {

// Fills the program's limit_bounds and largest_reserved_bytes; initial_segments are known.
void read_limit_bounds(const trace::Trace& trace, const trace::DeviceTrace& device,
                       Program& program);

// A limit on reserved bytes that explains every refusal of the recording. None where nothing was
// refused, and where no constant limit explains it (other programs filled and left the device).
[[nodiscard]] std::optional<uint64_t> recorded_limit(const Program& program);

// The same, and where garbage collection gave memory back at a share of the limit, the limit with
// which a replay of the recorded settings follows the recording farthest: a few dozen replays then.
[[nodiscard]] std::optional<uint64_t> fit_recorded_limit(const Program& program,
                                                         const AllocatorSpec& recorded);

}  // namespace vram::replay
