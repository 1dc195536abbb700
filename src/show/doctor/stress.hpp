// A memory test's report as text, and as JSON, vram.stress/1 (docs/json.md). Pure functions;
// untrusted text is made printable.
#pragma once

#include "base/result.hpp"
#include "show/draw/page.hpp"
#include "stress/report.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show {

[[nodiscard]] std::string draw_stress(const stress::StressReport& report,
                                      const std::optional<stress::Comparison>& comparison,
                                      const TextOptions& options = {});

// "pid 4711 alice python train.py (12 GiB)", for each.
[[nodiscard]] std::vector<std::string> other_texts(const std::vector<stress::OtherUser>& others);

[[nodiscard]] std::string stress_json(const stress::StressReport& report,
                                      const std::optional<stress::Comparison>& comparison);

// Reads the parts needed for a comparison: the time, the device, the figures. kBadInput: no such
// document. The text is untrusted.
[[nodiscard]] Result<stress::StressReport> read_stress_json(std::string_view text);

// The words of the JSON, which the text uses, too.
[[nodiscard]] std::string_view identifier(stress::Verdict verdict);  // "passed"
[[nodiscard]] std::string_view identifier(stress::Trend trend);      // "worse"
[[nodiscard]] std::string_view identifier(stress::Unit unit);        // "bytes_per_second"

}  // namespace vram::show
