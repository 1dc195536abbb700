// What the tuner's result means, in a sentence or two. Part of tune_text.
#pragma once

#include "show/page.hpp"
#include "show/tune_report.hpp"

#include <string>

namespace vram::show {

// "expandable_segments:True", "(default)", "cupy (model)"
[[nodiscard]] std::string candidate_name(const replay::TuneCandidate& candidate);

// Not every program can have expandable segments: where these are best, the best without. Null
// where that gains little.
[[nodiscard]] const replay::TuneCandidate* best_without_expandable(const TuneReport& report);

void draw_answer(const TuneReport& report, Page& page);

}  // namespace vram::show
