#include "cli/man_page.hpp"

#include <fmt/format.h>

#include <string_view>

namespace vram::cli {
namespace {

// The code point of the UTF-8 at the front of a text of ours, which it loses.
uint32_t take_code_point(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  uint32_t point = length == 1 ? lead : lead & (0x7fU >> length);
  for (const char byte : text.substr(1, length - 1))
    point = point << 6U | (static_cast<unsigned char>(byte) & 0x3fU);
  text.remove_prefix(length);
  return point;
}

// roff would set hyphens, quotes and backslashes as other characters, and obey a line that begins
// with a full stop or an apostrophe.
std::string roff(std::string_view text) {
  std::string out = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  while (!text.empty()) {
    const uint32_t point = take_code_point(text);
    if (point == '\\')
      out += "\\e";
    else if (point == '-')
      out += "\\-";
    else if (point == '\'')
      out += "\\(aq";
    else if (point == '`')
      out += "\\(ga";
    else if (point == '^')
      out += "\\(ha";
    else if (point == '~')
      out += "\\(ti";
    else if (point < 0x80)
      out += static_cast<char>(point);
    else
      out += fmt::format("\\[u{:04X}]", point);
  }
  return out;
}

void begin_page(std::string_view name, std::string_view summary, std::string& out) {
  out += fmt::format(
      ".TH \"{}\" 1 \"\" \"vram {}\" \"vram\"\n.nh\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
      roff(name), VRAM_VERSION, roff(name), roff(summary));
}

void add_entry(std::string_view set_term, std::string_view text, std::string& out) {
  out += fmt::format(".TP\n{}\n{}\n", set_term, roff(text));
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", roff(text)); }

std::string term(const Option& option) {
  if (option.is_argument()) return fmt::format("\\fI{}\\fR", roff(option.flags));
  std::string flags = option.flags;
  if (const size_t comma = flags.find(','); comma != std::string::npos)
    flags.insert(comma + 1, " ");
  return option.value_name.empty()
             ? bold(flags)
             : fmt::format("{} \\fI{}\\fR", bold(flags), roff(option.value_name));
}

void add_options(Command& command, bool arguments, std::string& out) {
  std::string entries;
  std::vector<Option> options = command.options();
  options.push_back(help_option());
  for (const Option& option : options)
    if (option.is_argument() == arguments) add_entry(term(option), option.help, entries);
  if (!entries.empty()) out += (arguments ? ".SH ARGUMENTS\n" : ".SH OPTIONS\n") + entries;
}

}  // namespace

std::string program_man_page(std::span<const std::unique_ptr<Command>> commands) {
  std::string out;
  begin_page("vram", "GPU memory toolkit for deep learning", out);
  out += bold("vram") + " \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH COMMANDS\n";
  for (const auto& command : commands)
    add_entry(fmt::format("\\fBvram\\-{}\\fR(1)", roff(command->manual().name)),
              command->manual().summary, out);
  return out + ".SH EXIT STATUS\n" + roff(kExitCodes) + "\n";
}

std::string command_man_page(Command& command) {
  const Manual& manual = command.manual();
  std::string out;
  begin_page(fmt::format("vram-{}", manual.name), manual.summary, out);
  out += fmt::format("{} {}\n.SH DESCRIPTION\n{}\n", bold(fmt::format("vram {}", manual.name)),
                     roff(manual.usage), roff(manual.details));
  add_options(command, true, out);
  add_options(command, false, out);
  if (!manual.choices.rows.empty()) {
    out += fmt::format(".SH \"{}\"\n", roff(manual.choices.title));
    for (const auto& [name, about] : manual.choices.rows) add_entry(bold(name), about, out);
  }
  out += ".SH EXAMPLES\n";
  for (const Example& example : manual.examples)
    add_entry(bold(example.command), example.meaning, out);
  return out + ".SH EXIT STATUS\n" + roff(kExitCodes) + "\n.SH SEE ALSO\n\\fBvram\\fR(1)\n";
}

}  // namespace vram::cli
