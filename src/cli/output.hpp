// Where a command's document goes: the screen, or the file that -o names.
#pragma once

#include "base/result.hpp"
#include "cli/console.hpp"
#include "show/report_text.hpp"

#include <string>

namespace vram::cli {

// The shape of text for that place: a file gets every glyph and no colour.
[[nodiscard]] show::TextOptions text_options(const std::string& output, const Console& console);

// To standard output where `output` is empty. A file appears when it is complete.
[[nodiscard]] Result<> deliver(const std::string& text, const std::string& output,
                               Console& console);

}  // namespace vram::cli
