// The report as text: one screen, from the program to the advice. A pure function of the report and
// the terminal's properties, which cli/ determines. The end names what max_lines leaves out.
#pragma once

#include "explain/report.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace vram::show {

inline constexpr size_t kDefaultRows = 8;  // of tables

struct TextOptions {
  int columns = 100;  // 60 to 120 are used, whatever the terminal has
  bool colour = false;
  bool unicode = true;             // else every glyph has an ASCII replacement
  bool bars = true;                // share bars and sparklines
  std::optional<size_t> top = {};  // rows of tables, 0 = all; none: 8, of a short report fewer
  size_t max_lines = 0;            // of a report, which leaves out details above that; 0: no limit
};

[[nodiscard]] std::string draw_report(const explain::Report& report,
                                      const TextOptions& options = {});

}  // namespace vram::show
