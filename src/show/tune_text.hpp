// The tuner's result for people: what to export, what it gains and costs, then the candidates by
// rank. A pure function of the report and the shape of the terminal.
#pragma once

#include "show/page.hpp"
#include "show/tune_report.hpp"

#include <string>

namespace vram::show {

// options.top candidates are listed, the recorded and the default settings always.
[[nodiscard]] std::string draw_tune(const TuneReport& report, const TextOptions& options = {});

}  // namespace vram::show
