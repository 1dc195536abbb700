// What was replayed, and on what: how every screen about replays begins.
#pragma once

#include "show/page.hpp"
#include "show/replay_report.hpp"

#include <cstdint>
#include <string>

namespace vram::show {

// The file, the program, the device that stood in; and what the recording lacks.
void draw_subject(const ReplaySubject& subject, Page& page);

// "0 s" where nothing took time.
[[nodiscard]] std::string duration_text(int64_t duration_ns);

// "ok", "OOM", or "3 of 9" where addresses decide.
[[nodiscard]] Line outcome_of(const replay::ReplayResult& result);

}  // namespace vram::show
