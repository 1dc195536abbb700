// Several replays beside each other: the table, and what the difference means. Part of replay_text.
#pragma once

#include "show/page.hpp"
#include "show/replay_report.hpp"

#include <string>

namespace vram::show {

// One line each with the best figures marked; nothing for a single replay.
void draw_comparison(const ReplayReport& report, Page& page);

// What the best of the other allocators means against the recording's own settings, in bytes. Empty
// where nothing but these was replayed.
[[nodiscard]] std::string difference_sentence(const ReplayReport& report);

}  // namespace vram::show
