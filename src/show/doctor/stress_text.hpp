// A memory test's report as text. Pure functions; untrusted text is made printable.
#pragma once

#include "show/draw/page.hpp"
#include "stress/report.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vram::show {

[[nodiscard]] std::string draw_stress(const stress::StressReport& report,
                                      const std::optional<stress::Comparison>& comparison,
                                      const TextOptions& options = {});

// "pid 4711 alice python train.py (12 GiB)", for each.
[[nodiscard]] std::vector<std::string> other_texts(const std::vector<stress::OtherUser>& others);

}  // namespace vram::show
