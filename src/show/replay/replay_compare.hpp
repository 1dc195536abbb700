// Several replays compared: the table, and a summary of the difference. Part of replay_text.
#pragma once

#include "show/draw/page.hpp"
#include "show/replay/replay_report.hpp"

#include <string>

namespace vram::show {

// One line each with the best figures marked; nothing for a single replay.
void draw_comparison(const ReplayReport& report, Page& page);

// States how the best of the other allocators differs from the recorded settings, in bytes. Empty
// if only these were replayed.
[[nodiscard]] std::string difference_sentence(const ReplayReport& report);

}  // namespace vram::show
