// The memory of a model for programs: vram.model_plan/1, documented in docs/json.md. Pure
// functions.
#pragma once

#include "show/plan/model_report.hpp"

#include <string>

namespace vram::show {

// One JSON document with a newline at its end.
[[nodiscard]] std::string model_json(const ModelReport& report);

}  // namespace vram::show
