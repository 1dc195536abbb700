// A pressure test's report as JSON, vram.stress/1 (docs/json.md), and back, for a later comparison.
// Pure functions.
#pragma once

#include "base/result.hpp"
#include "doctor/stress/compare.hpp"
#include "doctor/stress/report.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace vram::show {

[[nodiscard]] std::string stress_json(const doctor::StressReport& report,
                                      const std::optional<doctor::Comparison>& comparison);

// Reads the parts needed for a comparison: the time, the device, the figures. kBadInput: no such
// document. The text is untrusted.
[[nodiscard]] Result<doctor::StressReport> read_stress_json(std::string_view text);

// The words of the JSON, which the text uses, too.
[[nodiscard]] std::string_view identifier(doctor::Verdict verdict);  // "passed"
[[nodiscard]] std::string_view identifier(doctor::Trend trend);      // "worse"
[[nodiscard]] std::string_view identifier(doctor::Unit unit);        // "bytes_per_second"

}  // namespace vram::show
