// vram completion: the completions of the command line for a shell, written from the tables of
// options by which the commands parse it: commands, options, the values that are choices, files,
// and programs.
#include "base/language.hpp"
#include "cli/command.hpp"
#include "cli/habits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::cli {
namespace {

using Script = std::string (*)(std::span<const std::unique_ptr<Command>> commands);

using Commands = std::span<const std::unique_ptr<Command>>;

// The options and arguments of a command, with --help.
std::vector<Option> options_of(Command& command) {
  std::vector<Option> options = command.options();
  options.push_back(help_option());
  return options;
}

// "-o,--output" -> "-o", "--output"
std::vector<std::string> spellings(const Option& option) {
  const size_t comma = option.flags.find(',');
  if (comma == std::string::npos) return {option.flags};
  return {option.flags.substr(0, comma), option.flags.substr(comma + 1)};
}

std::vector<std::string_view> names_of(Commands commands) {
  std::vector<std::string_view> names;
  for (const auto& command : commands) names.push_back(command->manual().name);
  return names;
}

// Whether every shell takes a word as one, without quotes. Bytes from 0x80 on are of letters.
bool is_plain_word(std::string_view word) {
  return !word.starts_with('-') && std::ranges::all_of(word, [](unsigned char letter) {
    return letter >= 0x80 || std::isalnum(letter) != 0 || letter == '_' || letter == '.' ||
           letter == '/' || letter == '-';
  });
}

// What `vram help` explains besides the commands: the words of habits.toml.
std::string help_words() {
  std::set<std::string_view> words;
  for (const Habit& habit : habits())
    for (const std::string& word : habit.words)
      if (is_plain_word(word)) words.insert(word);
  return fmt::format("{}", fmt::join(words, " "));
}

// Between single quotes, which end before each `'` and begin again behind it.
std::string quoted_for(std::string_view text, std::string_view single_quote) {
  std::string quoted;
  for (const char letter : text)
    quoted += letter == '\'' ? std::string(single_quote) : std::string{letter};
  return "'" + quoted + "'";
}

// How bash completes a value: the variables that the end of the function reads.
std::string bash_kind(const Value& value, std::string_view kind, std::string_view words) {
  if (!value.choices.empty())
    return fmt::format("{}=words {}='{}'", kind, words, fmt::join(value.choices, " "));
  constexpr std::string_view kNames[] = {"text", "file", "program"};
  return fmt::format("{}={}", kind, kNames[static_cast<size_t>(value.names)]);
}

std::string bash_command(Command& command) {
  std::vector<std::string> flags;
  std::string arguments;
  std::string values;
  for (const Option& option : options_of(command)) {
    if (option.is_argument()) {
      arguments = " " + bash_kind(option.value, "argument", "names");
      continue;
    }
    const std::vector<std::string> spelled = spellings(option);
    flags.insert(flags.end(), spelled.begin(), spelled.end());
    if (option.value.count != Count::kNone)
      values += fmt::format("        {}) {} ;;\n", fmt::join(spelled, " | "),
                            bash_kind(option.value, "value", "words"));
  }
  std::string out = fmt::format("    {})\n      options='{}'{}\n", command.manual().name,
                                fmt::join(flags, " "), arguments);
  if (!values.empty()) out += fmt::format("      case $previous in\n{}      esac\n", values);
  return out + "      ;;\n";
}

constexpr std::string_view kBashBegin =
    R"(# Completion of vram for bash, printed by: vram completion bash
_vram() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=''
  local options='' argument='' names='' value='' words='' word
  COMPREPLY=()
  ((COMP_CWORD > 1)) && command=${COMP_WORDS[1]}
  # Of --option=value, bash makes three words.
  if [[ $current == = ]]; then
    current=''
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $command in
)";

constexpr std::string_view kBashEnd = R"(  esac
  # After --, all words are arguments.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
    [[ $word == -- ]] && options='' value=''
  done
  if [[ -z $value && $current == -* && -n $options ]]; then
    value=words words=$options
  elif [[ -z $value ]]; then
    value=$argument words=$names
  fi
  [[ $value == program && $previous != -- ]] && value=file
  case $value in
    words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current") ;;
    program) mapfile -t COMPREPLY < <(compgen -c -- "$current") ;;
    file)
      compopt -o filenames 2> /dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      ;;
  esac
}
complete -F _vram vram
)";

// A text in a specification of _arguments: no quote ends it, no bracket or colon divides it.
std::string zsh_text(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') escaped += '\\';
    escaped += letter == '\'' ? std::string("'\\''") : std::string{letter};
  }
  return escaped;
}

// What follows a specification: ":FILE:_files", ":FORMAT:(text json)".
std::string zsh_value(const Option& option) {
  const std::string name = zsh_text(option.is_argument() ? option.flags : option.value_name);
  if (!option.value.choices.empty())
    return fmt::format(":{}:({})", name, fmt::join(option.value.choices, " "));
  constexpr std::string_view kActions[] = {" ", "_files", "_command_names -e"};
  return fmt::format(":{}:{}", name, kActions[static_cast<size_t>(option.value.names)]);
}

std::string zsh_option(const Option& option) {
  const bool is_repeated = option.value.count == Count::kSeveral;
  const std::string value = option.value.count == Count::kNone ? "" : zsh_value(option);
  if (option.is_argument())
    return fmt::format("'{}{}'", is_repeated ? "*" : option.may_be_missing ? ":" : "", value);
  std::string out;
  const std::vector<std::string> spelled = spellings(option);
  const std::string others = is_repeated ? "*" : fmt::format("({})", fmt::join(spelled, " "));
  for (const std::string& flag : spelled)
    out += fmt::format("{}'{}{}{}[{}]{}'", out.empty() ? "" : " ", others, flag,
                       value.empty()            ? ""
                       : flag.starts_with("--") ? "="
                                                : "+",
                       zsh_text(option.help), value);
  return out;
}

// What several lines of fish begin with: completions of this command alone.
std::string fish_line(Command& command) {
  return fmt::format("complete -c vram -n '__fish_seen_subcommand_from {}'", command.manual().name);
}

std::string fish_text(std::string_view text) { return quoted_for(text, "\\'"); }

std::string fish_values(const Value& value) {
  if (!value.choices.empty())
    return fmt::format(" -a {}", fish_text(fmt::format("{}", fmt::join(value.choices, " "))));
  if (value.names == Names::kFile) return " -F";
  return value.names == Names::kProgram ? " -a '(__fish_complete_subcommand)'" : "";
}

std::string fish_option(const Option& option) {
  std::string out;
  for (const std::string& flag :
       option.is_argument() ? std::vector<std::string>{} : spellings(option))
    out += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
  if (!option.is_argument() && option.value.count != Count::kNone)
    out += option.value.names == Names::kFile ? " -r" : " -x";
  return out + fish_values(option.value);
}

std::string bash_completion(Commands commands) {
  std::string out(kBashBegin);
  const auto names = fmt::format("{}", fmt::join(names_of(commands), " "));
  out +=
      fmt::format("    '') argument=words names='{} help' options='--help --version' ;;\n", names);
  out += fmt::format("    help | --help | -h) argument=words names='{} {}' options=--man ;;\n",
                     names, help_words());
  for (const auto& command : commands) out += bash_command(*command);
  return out + std::string(kBashEnd);
}

std::string zsh_completion(Commands commands) {
  std::string out =
      "#compdef vram\n# Completion of vram for zsh, printed by: vram completion zsh\n_vram() {\n"
      "  local -a commands=(\n";
  for (const auto& command : commands)
    out +=
        fmt::format("    '{}:{}'\n", command->manual().name, zsh_text(command->manual().summary));
  out +=
      "    'help:explain a command'\n  )\n  if ((CURRENT == 2)); then\n    _describe command "
      "commands\n    return\n  fi\n  local command=$words[2]\n  shift words\n  ((CURRENT--))\n"
      "  case $command in\n    help)\n      _describe command commands\n      compadd - " +
      help_words() + "\n      ;;\n";
  for (const auto& command : commands) {
    out += fmt::format("    {})\n      _arguments -S", command->manual().name);
    for (const Option& option : options_of(*command))
      out += fmt::format(" \\\n        {}", zsh_option(option));
    out += "\n      ;;\n";
  }
  return out +
         "  esac\n}\nif [[ $funcstack[1] == _vram ]]; then\n  _vram \"$@\"\nelse\n  compdef _vram "
         "vram\nfi\n";
}

std::string fish_completion(Commands commands) {
  std::string out =
      "# Completion of vram for fish, printed by: vram completion fish\ncomplete -c vram -f\n";
  const auto add = [&](std::string_view name, std::string_view summary) {
    out += fmt::format("complete -c vram -n __fish_use_subcommand -a {} -d {}\n", name,
                       fish_text(summary));
  };
  for (const auto& command : commands) add(command->manual().name, command->manual().summary);
  add("help", tr("explain a command"));
  out += fmt::format("complete -c vram -n '__fish_seen_subcommand_from help' -a '{} {}'\n",
                     fmt::join(names_of(commands), " "), help_words());
  for (const auto& command : commands) {
    for (const Option& option : options_of(*command)) {
      const std::string line = fish_option(option);
      if (!line.empty())
        out += fmt::format("{}{} -d {}\n", fish_line(*command), line, fish_text(option.help));
    }
  }
  return out;
}

class CompletionCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  Script script_ = nullptr;
};

const Manual& CompletionCommand::manual() const {
  static const Manual kManual = {
      "completion",
      tr("print completions of this command line for bash, zsh or fish"),
      "bash|zsh|fish",
      tr("Prints a script with which a shell completes the commands, options and values of vram. "
         "The packages install it where each shell searches for it."),
      {{"source <(vram completion bash)", tr("complete in this shell, also in ~/.bashrc")},
       {"vram completion zsh > ~/.zfunc/_vram", tr("a folder of zsh's fpath")},
       {"vram completion fish > ~/.config/fish/completions/vram.fish",
        tr("all future fish shells")}}};
  return kManual;
}

std::vector<Option> CompletionCommand::options() {
  return {{"SHELL", "SHELL", tr("bash, zsh or fish"),
           choice<Script>(
               script_,
               {{"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}})}};
}

Result<int> CompletionCommand::run(Console& console) {
  return console.print(script_(all_commands())).map([] { return 0; });
}

}  // namespace

std::unique_ptr<Command> completion_command() { return std::make_unique<CompletionCommand>(); }

}  // namespace vram::cli
