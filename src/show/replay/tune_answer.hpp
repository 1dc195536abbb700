// The answer at the top of the tuner's screen: what to export, what it gains, and what it costs.
// Pure functions of the report.
#pragma once

#include "show/draw/page.hpp"
#include "show/replay/replay_report.hpp"

#include <string>

namespace vram::show {

// "expandable_segments:True", "(default)", "cupy (model)"
[[nodiscard]] std::string candidate_name(const replay::TuneCandidate& candidate);

// Some programs cannot use expandable segments: if these are best, returns the best candidate
// without them. Null if that gains little.
[[nodiscard]] const replay::TuneCandidate* best_without_expandable(const TuneReport& report);

void draw_answer(const TuneReport& report, Page& page);

}  // namespace vram::show
