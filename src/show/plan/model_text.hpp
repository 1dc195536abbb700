// The memory of a model for people. Pure functions.
#pragma once

#include "show/draw/page.hpp"
#include "show/plan/model_report.hpp"

#include <string>

namespace vram::show {

[[nodiscard]] std::string draw_model(const ModelReport& report, const TextOptions& options);

}  // namespace vram::show
