// Reconstructs the memory limit of a recorded process: bounds from granted, refused and collected
// memory (part of make_program; linear in the events), and a limit within them; and whether memory
// was released because of the limit or because the program emptied its cache.
#pragma once

#include "replay/program.hpp"
#include "replay/replay.hpp"
#include "trace/trace.hpp"

#include <optional>

namespace vram::replay {

// Sets the program's limit_bounds, largest_reserved_bytes and what is known about given_back;
// requires initial_segments.
void read_limit_bounds(const trace::Trace& trace, const trace::DeviceTrace& device,
                       Program& program);

// A memory fraction is compared with whole segments; the device refuses only what does not fit. The
// free memory of the device at an OOM distinguishes them.
struct RecordedLimit {
  uint64_t bytes = 0;
  bool is_fraction = false;
  // No one limit explains the refusals (other programs filled and left the device): the most that
  // the program ever had.
  bool is_assumed = false;
  friend bool operator==(const RecordedLimit&, const RecordedLimit&) = default;
};

// Of a replay that only follows the recording, under that limit: without curves or other layouts,
// and with at most max_driver_calls_of().
[[nodiscard]] ReplayOptions options_under(const std::optional<RecordedLimit>& limit,
                                          const Program& program);
// More calls to the driver than an allocator makes for a program of this length. Requests of about
// 1 TiB, which no device has, would take minutes otherwise.
[[nodiscard]] uint64_t max_driver_calls_of(const Program& program);

// Returns a limit on reserved bytes that explains every refusal of the recording and is at most
// what the process had and the device had free at an OOM. None if nothing was refused, or if no
// constant limit explains the refusals (other programs used and released memory).
[[nodiscard]] std::optional<RecordedLimit> recorded_limit(const Program& program);

// As recorded_limit(), and also what only replays of the recorded settings can determine: the limit
// with which garbage collection released memory, which given_back was an emptied cache, and whether
// the device or a memory fraction refused, if no OOM shows it. Chooses the variant whose replay
// follows the recording longest; at most a few dozen replays, and one if nothing was released. If
// something was refused and no limit explains it, a limit is assumed, so that all replays of a
// recording use the same one.
[[nodiscard]] std::optional<RecordedLimit> settle_recorded(Program& program,
                                                           const AllocatorSpec& recorded);

}  // namespace vram::replay
