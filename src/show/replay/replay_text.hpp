// Replays as text: the comparison, then for each one: whether it completed, its reserved memory,
// its driver calls, and its timeline. A pure function of the report and the terminal's properties.
#pragma once

#include "show/draw/page.hpp"
#include "show/replay/replay_report.hpp"

#include <string>

namespace vram::show {

[[nodiscard]] std::string draw_replay(const ReplayReport& report, const TextOptions& options = {});

}  // namespace vram::show
