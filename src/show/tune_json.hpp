// The tuner's result for programs: vram.tune/1, documented field by field in docs/json.md. A pure
// function of the report.
#pragma once

#include "show/tune_report.hpp"

#include <string>

namespace vram::show {

// One JSON document with a newline at its end. Every candidate, best first.
[[nodiscard]] std::string tune_json(const TuneReport& report);

}  // namespace vram::show
