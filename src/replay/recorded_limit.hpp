// What a recording tells of the limit that its process had: bounds from what was granted, refused
// and collected (part of make_program; linear in the events), and a limit between them; and whether
// memory went back because of the limit or because the program emptied its cache.
#pragma once

#include "replay/program.hpp"
#include "replay/replay.hpp"
#include "trace/trace.hpp"

#include <optional>

namespace vram::replay {

// Fills the program's limit_bounds, largest_reserved_bytes and what is known of given_back;
// initial_segments are known.
void read_limit_bounds(const trace::Trace& trace, const trace::DeviceTrace& device,
                       Program& program);

// A memory fraction is compared with whole segments; the end of the device refuses only what does
// not fit. They are told apart by what the device had free at an OOM.
struct RecordedLimit {
  uint64_t bytes = 0;
  bool is_fraction = false;
  // No one limit explains the refusals (other programs filled and left the device): the most that
  // the program ever had.
  bool is_assumed = false;
  friend bool operator==(const RecordedLimit&, const RecordedLimit&) = default;
};

// Of a replay that only follows the recording, under that limit: without curves or other layouts.
[[nodiscard]] ReplayOptions options_under(const std::optional<RecordedLimit>& limit);

// A limit on reserved bytes that explains every refusal of the recording, and is no larger than
// what the process had and the device had free at an OOM. None where nothing was refused, and where
// no constant limit explains it (other programs filled and left the device).
[[nodiscard]] std::optional<RecordedLimit> recorded_limit(const Program& program);

// The same, and what only replays of the recorded settings can tell: the limit of which garbage
// collection gave memory back at a share, which given_back was an emptied cache, and whether the
// device or a memory fraction refused where no OOM says so. Of all answers tried, those with which
// the replay follows the recording farthest; a few dozen replays at most, and one where nothing was
// given back. Where something was refused and no limit explains it, one is assumed, so that all
// replays of a recording stand under the same one.
[[nodiscard]] std::optional<RecordedLimit> settle_recorded(Program& program,
                                                           const AllocatorSpec& recorded);

}  // namespace vram::replay
