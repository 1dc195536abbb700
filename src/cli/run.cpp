#include "cli/run.hpp"

#include "base/language.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/habits.hpp"
#include "cli/options.hpp"
#include "show/draw/line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

namespace vram::cli {
namespace {

using Commands = std::vector<std::unique_ptr<Command>>;

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

std::string section(std::string_view title) { return fmt::format(".SH \"{}\"\n", roff(title)); }

void begin_page(std::string_view name, std::string_view summary, std::string& out) {
  out += fmt::format(".TH \"{}\" 1 \"\" \"vram {}\" \"vram\"\n.nh\n{}{} \\- {}\n{}", roff(name),
                     VRAM_VERSION, section(tr("NAME")), roff(name), roff(summary),
                     section(tr("SYNOPSIS")));
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
  if (!entries.empty()) out += section(arguments ? tr("ARGUMENTS") : tr("OPTIONS")) + entries;
}

std::string program_man_page(std::span<const std::unique_ptr<Command>> commands) {
  std::string out;
  begin_page("vram", tr("GPU memory toolkit for deep learning"), out);
  out += bold("vram") + " \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n" + section(tr("COMMANDS"));
  for (const auto& command : commands)
    add_entry(fmt::format("\\fBvram\\-{}\\fR(1)", roff(command->manual().name)),
              command->manual().summary, out);
  return out + section(tr("EXIT STATUS")) + roff(tr(kExitCodes)) + "\n";
}

std::string command_man_page(Command& command) {
  const Manual& manual = command.manual();
  std::string out;
  begin_page(fmt::format("vram-{}", manual.name), manual.summary, out);
  out += fmt::format("{} {}\n{}{}\n", bold(fmt::format("vram {}", manual.name)), roff(manual.usage),
                     section(tr("DESCRIPTION")), roff(manual.details));
  add_options(command, true, out);
  add_options(command, false, out);
  if (!manual.choices.rows.empty()) {
    out += section(manual.choices.title);
    for (const auto& [name, about] : manual.choices.rows) add_entry(bold(name), about, out);
  }
  out += section(tr("EXAMPLES"));
  for (const Example& example : manual.examples)
    add_entry(bold(example.command), example.meaning, out);
  return out + section(tr("EXIT STATUS")) + roff(tr(kExitCodes)) + "\n" + section(tr("SEE ALSO")) +
         "\\fBvram\\fR(1)\n";
}

bool requests_help(const std::vector<std::string>& words) {
  const auto end = std::ranges::find(words, "--");
  return std::any_of(words.begin(), end,
                     [](const std::string& w) { return w == "--help" || w == "-h"; });
}

Result<int> print(Console& console, const std::string& text) {
  return console.print(text).map([] { return 0; });
}

tl::unexpected<Error> unknown_command(const Commands& commands, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& command : commands) names.emplace_back(command->manual().name);
  const std::string_view meant = nearest(name, names);
  if (const auto rows = find_habits(name); meant.empty() && !rows.empty())
    return fail(Code::kBadInput,
                "unknown command '{}'; use this instead: {} ('vram help {}' explains it)", name,
                rows.front()->now, name);
  const std::string hint = meant.empty() ? "" : trf(", did you mean '{}'?", meant);
  return fail(Code::kBadInput, "unknown command '{}'{} 'vram --help' lists the commands", name,
              hint.empty() ? ";" : hint);
}

// What `vram help WORDS` prints if the words are no command.
Result<int> help_about(const Commands& commands, const std::string& words, Console& console) {
  const auto rows = find_habits(words);
  if (rows.empty()) return unknown_command(commands, words);
  return print(console, describe_habits(rows, reads_chinese(words)));
}

Result<int> run_with(Command& command, std::vector<std::string> words, Console& console) {
  if (requests_help(words)) return print(console, command_help(command));
  const std::vector<Option> options = command.options();
  const Result<> parsed = parse_options(command.manual(), options, std::move(words));
  if (!parsed) return tl::unexpected(parsed.error());
  return command.run(console);
}

std::string take_front(std::vector<std::string>& words) {
  std::string word = std::move(words.front());
  words.erase(words.begin());
  return word;
}

Result<int> dispatch(std::vector<std::string> words, std::string_view build, Console& console) {
  const Commands commands = all_commands();
  if (words.empty()) {
    console.error(tr("missing command; 'vram --help' lists the commands"));
    return kBadUsage;
  }
  std::string name = take_front(words);
  if (name == "--version" || name == "-V")
    return print(console, fmt::format("vram {} ({})\n", VRAM_VERSION, build));
  const bool wants_help = name == "--help" || name == "-h" || name == "help";
  const bool wants_page = wants_help && !words.empty() && words.front() == "--man";
  if (wants_page) take_front(words);
  if (wants_help && words.empty())
    return print(console, wants_page ? program_man_page(commands) : program_help(commands));
  if (wants_help) name = take_front(words);
  const auto found = std::ranges::find_if(
      commands, [&](const auto& command) { return command->manual().name == name; });
  if (found == commands.end() && wants_help && !wants_page) {
    for (const std::string& word : words) name += " " + word;
    return help_about(commands, name, console);
  }
  if (found == commands.end()) return unknown_command(commands, name);
  if (wants_page) return print(console, command_man_page(**found));
  if (wants_help) return print(console, command_help(**found));
  return run_with(**found, std::move(words), console);
}

int guarded(std::vector<std::string> words, std::string_view build, Console& console) {
  const Result<int> code = dispatch(std::move(words), build, console);
  if (code) return *code;
  console.error(code.error().message);
  return kBadUsage;
}

}  // namespace

int run(int argc, char** argv, std::string_view build) {
  use_language(language_of_environment());
  // A reader that leaves is seen as EPIPE (Console::print), and a limit of file sizes as EFBIG.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  Console console;
  try {
    return guarded({argv + std::min(argc, 1), argv + argc}, build, console);
  } catch (const std::bad_alloc&) {
    console.progress("");
    console.error(
        tr("out of host memory; the recording needs more than this machine or its limits allow"));
    return kEnvironment;
  } catch (const std::exception& exception) {
    console.progress("");
    console.error(
        trf("internal error: {}; please report it with the command line", exception.what()));
    return kEnvironment;
  }
}

namespace {

constexpr int kColumns = 100;

// A name at the left, its wrapped explanation in a column next to it.
void add_row(std::string_view name, std::string_view text, size_t name_columns, std::string& out) {
  const int room = kColumns - static_cast<int>(name_columns) - 4;
  bool first = true;
  for (const std::string& line : show::wrap(text, room)) {
    out += fmt::format("  {:<{}}  {}\n", first ? name : "", name_columns, line);
    first = false;
  }
}

void add_paragraph(std::string_view text, std::string& out) {
  for (const std::string& line : show::wrap(text, kColumns)) out += line + "\n";
}

std::string left_side(const Option& option) {
  std::string text = option.flags;
  if (const size_t comma = text.find(','); comma != std::string::npos) text.insert(comma + 1, " ");
  return option.value_name.empty() || option.is_argument() ? text : text + " " + option.value_name;
}

void add_options(std::vector<Option> options, std::string& out) {
  options.push_back(help_option());
  size_t width = 0;
  for (const Option& option : options) width = std::max(width, left_side(option).size());
  const bool has_arguments = std::ranges::any_of(options, &Option::is_argument);
  for (const bool arguments : {true, false}) {
    if (arguments && !has_arguments) continue;
    out += fmt::format("\n{}\n", arguments ? tr("Arguments") : tr("Options"));
    for (const Option& option : options) {
      if (option.is_argument() == arguments) add_row(left_side(option), option.help, width, out);
    }
  }
}

void add_choices(const Choices& choices, std::string& out) {
  if (choices.rows.empty()) return;
  out += "\n" + choices.title + "\n";
  size_t width = 0;
  for (const auto& [name, about] : choices.rows) width = std::max(width, name.size());
  for (const auto& [name, about] : choices.rows) add_row(name, about, width, out);
}

void add_examples(const Manual& manual, std::string& out) {
  out += fmt::format("\n{}\n", tr("Examples"));
  size_t width = 0;
  for (const Example& example : manual.examples) width = std::max(width, example.command.size());
  for (const Example& example : manual.examples)
    add_row(example.command, example.meaning, width, out);
}

}  // namespace

std::string program_help(std::span<const std::unique_ptr<Command>> commands) {
  std::string out =
      fmt::format("vram: {}\n\n{}\n\n{}\n", tr("GPU memory toolkit for deep learning"),
                  tr("Usage: vram COMMAND [OPTIONS] ..."), tr("Commands"));
  for (const auto& command : commands)
    add_row(command->manual().name, command->manual().summary, 10, out);
  out +=
      tr("\n'vram demo' shows what it does, without a GPU. For your own program, run 'vram run "
         "--record\nrun.vtrace -- python train.py', then 'vram report run.vtrace'.\n");
  out += tr(
      "'vram help COMMAND' explains a command, 'vram help WORD' what to use instead of other tools "
      "and\n"
      "calls: nvidia-smi, empty_cache, autocast, 显存碎片. 'vram --version' prints the version.\n");
  out += trf("Exit codes: {}\n", tr(kExitCodes));
  return out;
}

std::string command_help(Command& command) {
  const Manual& manual = command.manual();
  std::string out = trf("Usage: vram {} {}\n\n", manual.name, manual.usage);
  add_paragraph(manual.details, out);
  add_options(command.options(), out);
  add_choices(manual.choices, out);
  add_examples(manual, out);
  return out;
}

}  // namespace vram::cli
