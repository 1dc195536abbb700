// vram doctor as text: problems, the worst first, each with its commands on lines of their own.
// Pure functions; the text is printable, whatever the input contains.
#pragma once

#include "doctor/examine.hpp"
#include "show/draw/page.hpp"

#include <string>
#include <string_view>

namespace vram::show {

[[nodiscard]] std::string_view name_of(doctor::Severity severity);  // "bad", "warning", …

// `all`: the evidence and the reasons of notes, too, and a line for everything that is good.
[[nodiscard]] std::string draw_doctor(const doctor::Report& report, bool all,
                                      const TextOptions& options = {});

// vram doctor for programs: vram.doctor/1, documented in docs/json.md.

[[nodiscard]] std::string doctor_json(const doctor::Report& report);

}  // namespace vram::show
