// The report for people: one screen of text, from what ran to what to do about it. A pure function
// of the report and the shape of the terminal; cli/ finds that shape out.
#pragma once

#include "explain/report.hpp"

#include <cstddef>
#include <string>

namespace vram::show {

struct TextOptions {
  int columns = 100;  // 72 to 120 are used, whatever the terminal has
  bool colour = false;
  bool unicode = true;  // else every glyph has an ASCII stand-in
  bool bars = true;     // share bars and sparklines
  size_t top = 8;       // holders shown; 0 = all
};

[[nodiscard]] std::string draw_report(const explain::Report& report,
                                      const TextOptions& options = {});

}  // namespace vram::show
