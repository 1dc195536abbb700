// Command: a command of the program. It provides its manual and its options; options.cpp converts
// the options' values from the command line, then run() does the work. Each command has its own
// file and is listed in command.cpp.
#pragma once

#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/console.hpp"

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace vram::cli {

// Value: how the text of an option becomes a value of its type, and the member of the command that
// receives it. A command lists its options with their values; options.cpp converts each text once.
enum class Count : uint8_t {
  kNone,     // a switch
  kOne,      // the last one counts
  kSeveral,  // arguments, or an option that is named for each
};

// What a text names, for shells to complete it.
enum class Names : uint8_t { kNothing, kFile, kProgram };

struct Value {
  // Converts a text and stores the result. `option` is named in the error.
  using Store = std::function<Result<>(std::string_view option, const std::string& text)>;

  Value(Count number, Store convert) : count(number), store(std::move(convert)) {}
  // Texts that are values as they are.
  Value(bool* target);
  Value(std::string* target);
  Value(std::vector<std::string>* target);

  Count count;
  Store store;
  std::vector<std::string> choices = {};  // all that it accepts, or what a value begins with
  Names names = Names::kNothing;
};

// A value that is the path of a file or folder.
[[nodiscard]] Value file(Value path);
// Arguments that are a program and its arguments.
[[nodiscard]] Value program(std::vector<std::string>* target);

// A value whose text `parse` converts; T, std::optional<T> or std::vector<T> receives it. `parse`
// takes the option and the text; or the text alone, then the option precedes its error.
template <typename Member, typename Parse>
[[nodiscard]] Value value(Member& member, Parse parse) {
  constexpr bool kIsSeveral = requires(Member several) { several.emplace_back(); };
  return {kIsSeveral ? Count::kSeveral : Count::kOne,
          [&member, parse](std::string_view option, const std::string& text) -> Result<> {
            auto parsed = [&] {
              if constexpr (std::invocable<Parse, std::string_view, const std::string&>)
                return parse(option, text);
              else
                return parse(text).map_error([&](Error error) {
                  error.message = fmt::format("{}: {}", option, error.message);
                  return error;
                });
            }();
            if (!parsed) return tl::unexpected(std::move(parsed.error()));
            if constexpr (kIsSeveral)
              member.push_back(*std::move(parsed));
            else
              member = *std::move(parsed);
            return {};
          }};
}

// A switch for output that programs read (JSON, CSV, metrics): all texts are English then.
[[nodiscard]] Value for_programs(bool* target);

// A value for which shells suggest these words.
[[nodiscard]] Value with_choices(Value value, std::vector<std::string> words);

// "--format: expected text or json, found 'xml'"
[[nodiscard]] tl::unexpected<Error> not_a_choice(std::string_view option,
                                                 const std::vector<std::string>& choices,
                                                 std::string_view text);

// One of a few words, each with its meaning.
template <typename Meaning>
using Words = std::vector<std::pair<std::string, Meaning>>;
template <typename Meaning, typename Member>
[[nodiscard]] Value choice(Member& member, const Words<Meaning>& words) {
  std::vector<std::string> choices;
  for (const auto& [word, meaning] : words) choices.push_back(word);
  const auto parse = [words, choices](std::string_view option,
                                      const std::string& text) -> Result<Meaning> {
    for (const auto& [word, meaning] : words)
      if (text == word) return meaning;
    return not_a_choice(option, choices, text);
  };
  return with_choices(value(member, parse), std::move(choices));
}

// Conversions. The texts of their errors name the option.

// "12" -> 12, at most `max`.
[[nodiscard]] Result<uint64_t> parse_whole(std::string_view option, std::string_view text,
                                           uint64_t max);

template <typename Number = uint64_t>
[[nodiscard]] Result<Number> parse_number(std::string_view option, std::string_view text) {
  return parse_whole(option, text, std::numeric_limits<Number>::max()).map([](uint64_t number) {
    return static_cast<Number>(number);
  });
}

// A size such as "16GiB". A number without a unit is refused: it is probably a mistake.
[[nodiscard]] Result<uint64_t> parse_size(std::string_view option, std::string_view text);

// "1s", "0.5": a period of at least 0.1 s.
[[nodiscard]] Result<std::chrono::nanoseconds> parse_period(std::string_view option,
                                                            std::string_view text);

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
[[nodiscard]] std::unique_ptr<Command> diff_command();
[[nodiscard]] std::unique_ptr<Command> convert_command();
[[nodiscard]] std::unique_ptr<Command> replay_command();
[[nodiscard]] std::unique_ptr<Command> tune_command();
[[nodiscard]] std::unique_ptr<Command> plan_command();
[[nodiscard]] std::unique_ptr<Command> run_command();
[[nodiscard]] std::unique_ptr<Command> record_command();
[[nodiscard]] std::unique_ptr<Command> status_command();
[[nodiscard]] std::unique_ptr<Command> top_command();
[[nodiscard]] std::unique_ptr<Command> free_command();
[[nodiscard]] std::unique_ptr<Command> doctor_command();
[[nodiscard]] std::unique_ptr<Command> serve_command();
[[nodiscard]] std::unique_ptr<Command> completion_command();

// The exit codes of all commands. 0: success.

inline constexpr std::string_view kExitCodes =
    tr_later("0 success, 1 a check failed, 2 invalid usage or input, 3 environment.");
inline constexpr int kFailed = 1;  // a gate or a finding
inline constexpr int kBadUsage = 2;
inline constexpr int kEnvironment = 3;  // no GPU, no permission, an address that is taken

}  // namespace vram::cli
