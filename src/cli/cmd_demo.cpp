// vram demo: the main commands on recordings that are installed with the program.
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/demo.hpp"
#include "cli/options.hpp"

#include <algorithm>

namespace vram::cli {
namespace {

class DemoCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<std::vector<DemoRecording>> wanted() const;

  std::string name_;
  bool list_ = false;
};

Choices choices() {
  Choices choices = {"Recordings", {}};
  for (const DemoRecording& recording : demo_recordings())
    choices.rows.emplace_back(recording.name, recording.about);
  return choices;
}

const Manual& DemoCommand::manual() const {
  static const Manual kManual = {
      "demo",
      "report on two recordings that are installed with vram, and tune one; needs no GPU",
      "[NAME] [--list]",
      "Runs vram report and vram tune on recordings of real training runs on an NVIDIA H200, which "
      "are installed with vram, and prints each command before its output.",
      {{"vram demo", "both recordings"},
       {"vram demo leak", "one of them"},
       {"vram top --gpu sim", "plays the first one on a simulated GPU"}},
      choices()};
  return kManual;
}

std::vector<Option> DemoCommand::options() {
  return {{"NAME", "NAME", "the recording (default: all)", &name_, true},
          {"--list", "", "print the names and paths of the recordings, and exit", &list_}};
}

Result<std::vector<DemoRecording>> DemoCommand::wanted() const {
  std::vector<DemoRecording> wanted;
  std::vector<std::string_view> names;
  for (const DemoRecording& recording : demo_recordings()) {
    names.push_back(recording.name);
    if (name_.empty() || name_ == recording.name) wanted.push_back(recording);
  }
  if (!wanted.empty()) return wanted;
  return fail(Code::kBadInput, "no demo recording '{}'; there are {}", name_,
              fmt::join(names, ", "));
}

// For a shell, as it is printed.
std::string quoted(const std::string& path) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+=:,@%";
  if (path.find_first_not_of(kPlain) == std::string::npos) return path;
  std::string text = "'";
  for (const char letter : path)
    text += letter == '\'' ? std::string("'\\''") : std::string{letter};
  return text + "'";
}

Result<int> run_printed(std::unique_ptr<Command> command, const std::string& path,
                        Console& console) {
  const auto printed =
      console.print(fmt::format("\n$ vram {} {}\n", command->manual().name, quoted(path)));
  if (!printed) return tl::unexpected(printed.error());
  if (console.output_is_closed()) return 0;
  const std::vector<Option> options = command->options();
  VRAM_TRY(parse_options(command->manual(), options, {path}));
  return command->run(console);
}

Result<int> DemoCommand::run(Console& console) {
  VRAM_TRY_ASSIGN(const auto wanted, this->wanted());
  std::vector<std::string> paths;
  for (const DemoRecording& recording : wanted) {
    auto path = demo_path(recording);
    if (!path) {
      console.error(path.error().message);
      return kEnvironment;
    }
    paths.push_back(*std::move(path));
  }
  if (list_) {
    std::string text;
    for (size_t i = 0; i < paths.size(); ++i)
      text += fmt::format("{}  {}\n", wanted[i].name, paths[i]);
    return console.print(text).map([] { return 0; });
  }
  for (const std::string& path : paths) {
    if (const auto code = run_printed(report_command(), path, console); !code || *code != 0)
      return code;
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    if (!wanted[i].is_tuned) continue;
    if (const auto code = run_printed(tune_command(), paths[i], console); !code || *code != 0)
      return code;
  }
  return 0;
}

}  // namespace

std::unique_ptr<Command> demo_command() { return std::make_unique<DemoCommand>(); }

}  // namespace vram::cli
