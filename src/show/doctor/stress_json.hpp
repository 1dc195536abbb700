// A memory test's report as JSON: vram.stress/1 (docs/json.md). Pure functions.
#pragma once

#include "base/result.hpp"
#include "stress/report.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace vram::show {

[[nodiscard]] std::string stress_json(const stress::StressReport& report,
                                      const std::optional<stress::Comparison>& comparison);

// Reads the parts needed for a comparison: the time, the device, the figures. kBadInput: no such
// document. The text is untrusted.
[[nodiscard]] Result<stress::StressReport> read_stress_json(std::string_view text);

}  // namespace vram::show
