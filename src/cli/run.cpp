#include "cli/run.hpp"

#include "base/nearest.hpp"
#include "cli/command.hpp"
#include "cli/exit_codes.hpp"
#include "cli/help.hpp"
#include "cli/options.hpp"

#include <algorithm>
#include <csignal>
#include <exception>
#include <new>

namespace vram::cli {
namespace {

using Commands = std::vector<std::unique_ptr<Command>>;

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
  const std::string hint = meant.empty() ? "" : fmt::format(", did you mean '{}'?", meant);
  return fail(Code::kBadInput, "unknown command '{}'{} 'vram --help' lists the commands", name,
              hint.empty() ? ";" : hint);
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
    console.error("missing command; 'vram --help' lists the commands");
    return kBadUsage;
  }
  std::string name = take_front(words);
  if (name == "--version" || name == "-V")
    return print(console, fmt::format("vram {} ({})\n", VRAM_VERSION, build));
  const bool wants_help = name == "--help" || name == "-h" || name == "help";
  if (wants_help && words.empty()) return print(console, program_help(commands));
  if (wants_help) name = take_front(words);
  const auto found = std::ranges::find_if(
      commands, [&](const auto& command) { return command->manual().name == name; });
  if (found == commands.end()) return unknown_command(commands, name);
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
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves is seen as EPIPE, see Console::print
  Console console;
  try {
    return guarded({argv + std::min(argc, 1), argv + argc}, build, console);
  } catch (const std::bad_alloc&) {
    console.progress("");
    console.error(
        "out of host memory; the recording needs more than this machine or its limits allow");
    return kEnvironment;
  } catch (const std::exception& exception) {
    console.progress("");
    console.error(fmt::format("internal error: {}; please report it with the command line",
                              exception.what()));
    return kEnvironment;
  }
}

}  // namespace vram::cli
