// A pressure test's report as text. Pure functions; untrusted text is made printable.
#pragma once

#include "doctor/stress/compare.hpp"
#include "doctor/stress/report.hpp"
#include "show/page.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vram::show {

[[nodiscard]] std::string draw_stress(const doctor::StressReport& report,
                                      const std::optional<doctor::Comparison>& comparison,
                                      const TextOptions& options = {});

// "pid 4711 alice python train.py (12 GiB)", for each.
[[nodiscard]] std::vector<std::string> other_texts(const std::vector<doctor::OtherUser>& others);

}  // namespace vram::show
