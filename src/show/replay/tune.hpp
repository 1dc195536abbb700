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

}  // namespace vram::show
