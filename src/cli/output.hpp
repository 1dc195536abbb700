// The output of a command's document: the screen, or the file of -o.
#pragma once

#include "base/output_target.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "show/page.hpp"

#include <string>

namespace vram::cli {

// The values of -o and --force.
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

// Checks whether the existing file may be replaced; call it before the work whose result goes
// there.
[[nodiscard]] Result<> check_output(const Output& output);

// Writes to standard output if there is no path. A file appears when it is complete; a text's last
// line marks it as written by vram, so that a later one may replace it.
[[nodiscard]] Result<> deliver(const std::string& text, const Output& output, Console& console);

// Of find_output_target(), with what --force would do.
[[nodiscard]] Error with_force(Error error);

[[nodiscard]] inline Replace replace_for(bool is_forced) {
  return is_forced ? Replace::kAny : Replace::kOwn;
}

}  // namespace vram::cli
