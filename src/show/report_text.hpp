// The report as text: one screen, from the program to the advice. A pure function of the report and
// the terminal's properties, which cli/ determines. The end names what max_lines leaves out.
#pragma once

#include "explain/report.hpp"
#include "show/page.hpp"

#include <string>

namespace vram::show {

[[nodiscard]] std::string draw_report(const explain::Report& report,
                                      const TextOptions& options = {});

}  // namespace vram::show
