// vram doctor for programs: vram.doctor/1, documented in docs/json.md.
#pragma once

#include "doctor/finding.hpp"

#include <string>

namespace vram::show {

[[nodiscard]] std::string doctor_json(const doctor::Report& report);

}  // namespace vram::show
