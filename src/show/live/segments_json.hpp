// The segments of a process's allocators for programs: the object segment_list of vram.segments/1,
// documented in docs/json.md.
#pragma once

#include "base/json.hpp"
#include "watch/segments_request.hpp"

#include <cstdint>

namespace vram::show {

[[nodiscard]] Json json_segments(const watch::SegmentList& list, int64_t taken_unix_ns);

}  // namespace vram::show
