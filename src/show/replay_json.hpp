// Replays for programs: vram.replay/1, documented field by field in docs/json.md. A pure function
// of the report.
#pragma once

#include "show/replay_report.hpp"

#include <string>

namespace vram::show {

// A JSON document with a final newline. Keys have a fixed order; unknown values are null, never 0.
[[nodiscard]] std::string replay_json(const ReplayReport& report);

}  // namespace vram::show
