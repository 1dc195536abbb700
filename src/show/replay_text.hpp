// Replays for people: how several compare, then each: did it complete, what it reserved, what it
// asked of the driver, and its course. A pure function of the report and the shape of the terminal.
#pragma once

#include "show/replay_report.hpp"
#include "show/report_text.hpp"

#include <string>

namespace vram::show {

[[nodiscard]] std::string draw_replay(const ReplayReport& report, const TextOptions& options = {});

}  // namespace vram::show
