#include "cli/help.hpp"

#include "show/draw/wrap.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::cli {
namespace {

constexpr int kColumns = 100;

// A name at the left, its wrapped explanation in a column beside it.
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
  options.push_back({"-h,--help", "", "show this", static_cast<bool*>(nullptr)});
  size_t width = 0;
  for (const Option& option : options) width = std::max(width, left_side(option).size());
  const bool has_arguments = std::ranges::any_of(options, &Option::is_argument);
  for (const bool arguments : {true, false}) {
    if (arguments && !has_arguments) continue;
    out += arguments ? "\nArguments\n" : "\nOptions\n";
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
  out += "\nExamples\n";
  size_t width = 0;
  for (const Example& example : manual.examples) width = std::max(width, example.command.size());
  for (const Example& example : manual.examples)
    add_row(example.command, example.meaning, width, out);
}

}  // namespace

std::string program_help(std::span<const std::unique_ptr<Command>> commands) {
  std::string out =
      "vram: GPU memory toolkit for deep learning\n\nUsage: vram COMMAND [OPTIONS] "
      "...\n\nCommands\n";
  for (const auto& command : commands)
    add_row(command->manual().name, command->manual().summary, 9, out);
  out +=
      "\n'vram demo' shows what it does, without a GPU. For your own program, run 'vram run "
      "--record\nrun.vtrace -- python train.py', then 'vram report run.vtrace'.\n";
  out += "'vram help COMMAND' explains a command. 'vram --version' prints the version.\n";
  out += "Exit codes: 0 success, 1 a check failed, 2 invalid usage or input, 3 environment.\n";
  return out;
}

std::string command_help(Command& command) {
  const Manual& manual = command.manual();
  std::string out = fmt::format("Usage: vram {} {}\n\n", manual.name, manual.usage);
  add_paragraph(manual.details, out);
  add_options(command.options(), out);
  add_choices(manual.choices, out);
  add_examples(manual, out);
  return out;
}

}  // namespace vram::cli
