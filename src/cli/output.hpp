// Where a command's document goes: the screen, or the file that -o names.
#pragma once

#include "base/output_target.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "show/report_text.hpp"

#include <string>

namespace vram::cli {

// What -o and --force say.
struct Output {
  std::string path = "";  // empty: the screen
  bool is_forced = false;
  bool can_be_forced = false;
};

// -o, into `target`.
[[nodiscard]] Option output_option(Output& target);
// --force, into `target`. Without it a command replaces only what vram wrote.
[[nodiscard]] Option force_option(Output& target);

// The shape of text for that place: a file gets every glyph and no colour.
[[nodiscard]] show::TextOptions text_options(const Output& output, const Console& console);

// Whether what is there may be replaced, to be asked before the work whose result goes there.
[[nodiscard]] Result<> check_output(const Output& output);

// To standard output where no path is named. A file appears when it is complete; a text's last line
// says that vram wrote it, by which the next one may replace it.
[[nodiscard]] Result<> deliver(const std::string& text, const Output& output, Console& console);

// Of find_output_target(), with what --force would do.
[[nodiscard]] Error with_force(Error error);

[[nodiscard]] inline Replace replace_for(bool is_forced) {
  return is_forced ? Replace::kAny : Replace::kOwn;
}

}  // namespace vram::cli
