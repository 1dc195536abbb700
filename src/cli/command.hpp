// Command: a command of the program. It provides its manual and its options; options.cpp converts
// the options' values from the command line, then run() does the work. Each command has its own
// file and is listed in command.cpp.
#pragma once

#include "base/result.hpp"
#include "cli/console.hpp"
#include "cli/value.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::cli {

// One option or argument: the only description of it, for parsing, help, manuals and completions.
struct Option {
  std::string flags;       // "-o,--output", or "TRACE" for an argument without a dash
  std::string value_name;  // "FILE"; empty for a switch
  std::string help;
  Value value;                  // of the command's member that receives it
  bool may_be_missing = false;  // arguments only: options always may

  [[nodiscard]] bool is_argument() const { return flags.front() != '-'; }
  // "--output", "TRACE"
  [[nodiscard]] std::string name() const {
    return is_argument() ? flags : flags.substr(flags.find("--"));
  }
};

struct Example {
  std::string_view command;
  std::string_view meaning;
};

// The possible parts of an option's value, listed under their own title.
struct Choices {
  std::string title;
  std::vector<std::pair<std::string, std::string>> rows;  // name, one line about it
};

struct Manual {
  std::string_view name;
  std::string_view summary;  // one line, for the list of commands
  std::string_view usage;    // after the name
  std::string_view details;
  std::vector<Example> examples;
  Choices choices = {};
};

// -h and --help, which every command has.
[[nodiscard]] Option help_option();

class Command {
 public:
  virtual ~Command() = default;
  [[nodiscard]] virtual const Manual& manual() const = 0;
  [[nodiscard]] virtual std::vector<Option> options() = 0;
  // The exit code; an Error is printed and becomes 2.
  [[nodiscard]] virtual Result<int> run(Console& console) = 0;
};

// All commands, in the order of the program's help.
[[nodiscard]] std::vector<std::unique_ptr<Command>> all_commands();

// Each in its own file, cmd_NAME.cpp.
[[nodiscard]] std::unique_ptr<Command> demo_command();
[[nodiscard]] std::unique_ptr<Command> report_command();
[[nodiscard]] std::unique_ptr<Command> convert_command();
[[nodiscard]] std::unique_ptr<Command> replay_command();
[[nodiscard]] std::unique_ptr<Command> tune_command();
[[nodiscard]] std::unique_ptr<Command> plan_command();
[[nodiscard]] std::unique_ptr<Command> run_command();
[[nodiscard]] std::unique_ptr<Command> status_command();
[[nodiscard]] std::unique_ptr<Command> top_command();
[[nodiscard]] std::unique_ptr<Command> free_command();
[[nodiscard]] std::unique_ptr<Command> doctor_command();
[[nodiscard]] std::unique_ptr<Command> serve_command();
[[nodiscard]] std::unique_ptr<Command> completion_command();

// The exit codes of all commands. 0: success.

inline constexpr std::string_view kExitCodes =
    "0 success, 1 a check failed, 2 invalid usage or input, 3 environment.";
inline constexpr int kFailed = 1;  // a gate or a finding
inline constexpr int kBadUsage = 2;
inline constexpr int kEnvironment = 3;  // no GPU, no permission, an address that is taken

}  // namespace vram::cli
