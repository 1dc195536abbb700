// The tuner's result for people and for programs: what to export, what it gains and costs, then the
// candidates by rank. A pure function of the report and the shape of the terminal.
#pragma once

#include "show/draw/page.hpp"
#include "show/replay/replay_report.hpp"

#include <string>

namespace vram::show {

// options.top candidates are listed, the recorded and the default settings always.
[[nodiscard]] std::string draw_tune(const TuneReport& report, const TextOptions& options = {});

// vram.tune/1, documented field by field in docs/json.md: one JSON document with a newline at its
// end. Every candidate, best first.
[[nodiscard]] std::string tune_json(const TuneReport& report);

// The parts of draw_tune() that are in tune_answer.cpp.

// "expandable_segments:True", "(default)", "cupy (model)"
[[nodiscard]] std::string candidate_name(const replay::TuneCandidate& candidate);

// Some programs cannot use expandable segments: if these are best, returns the best candidate
// without them. Null if that gains little.
[[nodiscard]] const replay::TuneCandidate* best_without_expandable(const TuneReport& report);

void draw_answer(const TuneReport& report, Page& page);

}  // namespace vram::show
