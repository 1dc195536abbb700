// A recording for a playback (watch/playback.hpp): anything that `vram report` opens.
#pragma once

#include "base/result.hpp"
#include "explain/moment/memory_timeline.hpp"
#include "watch/playback.hpp"

#include <string>

namespace vram::cli {

// At its own pace, its last state for a second more; one without a clock takes a minute.
[[nodiscard]] watch::Playable playable_of(const explain::MemoryTimeline& timeline);

// Reads the whole recording, and keeps only what is played, of the main device.
[[nodiscard]] Result<watch::Playable> open_playable(const std::string& path);

}  // namespace vram::cli
