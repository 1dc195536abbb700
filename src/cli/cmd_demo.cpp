// vram demo: the main commands on recordings that are installed with the program.
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/folders.hpp"
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
  std::span<const DemoRecording> recordings_ = demo_recordings();
  bool list_ = false;
};

Choices choices() {
  Choices choices = {tr("Recordings"), {}};
  for (const DemoRecording& recording : demo_recordings())
    choices.rows.emplace_back(recording.name, tr(recording.about));
  return choices;
}

const Manual& DemoCommand::manual() const {
  static const Manual kManual = {
      "demo",
      tr("report on two recordings that are installed with vram, and tune one; needs no GPU"),
      "[NAME] [--list]",
      tr("Runs vram report and vram tune on recordings of real training runs on an NVIDIA H200, "
         "which "
         "are installed with vram, and prints each command before its output."),
      {{"vram demo", tr("both recordings")},
       {"vram demo leak", tr("one of them")},
       {"vram top --gpu sim", tr("plays the first one on a simulated GPU")}},
      choices()};
  return kManual;
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const DemoRecording& recording : demo_recordings()) names.emplace_back(recording.name);
  return names;
}

Result<std::span<const DemoRecording>> parse_name(std::string_view, std::string_view text) {
  const auto all = demo_recordings();
  const auto found = std::ranges::find(all, text, &DemoRecording::name);
  if (found != all.end()) return all.subspan(static_cast<size_t>(found - all.begin()), 1);
  return fail(Code::kBadInput, "no demo recording '{}'; there are {}", text,
              fmt::join(names(), ", "));
}

std::vector<Option> DemoCommand::options() {
  return {{"NAME", "NAME", tr("the recording (default: all)"),
           with_choices(value(recordings_, parse_name), names()), true},
          {"--list", "", tr("print the names and paths of the recordings, and exit"), &list_}};
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
  VRAM_TRY(console.print(fmt::format("\n$ vram {} {}\n", command->manual().name, quoted(path))));
  if (console.output_is_closed()) return 0;
  const std::vector<Option> options = command->options();
  VRAM_TRY(parse_options(command->manual(), options, {path}));
  return command->run(console);
}

Result<int> DemoCommand::run(Console& console) {
  std::vector<std::string> paths;
  for (const DemoRecording& recording : recordings_) {
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
      text += fmt::format("{}  {}\n", recordings_[i].name, paths[i]);
    return console.print(text).map([] { return 0; });
  }
  for (const std::string& path : paths) {
    if (const auto code = run_printed(report_command(), path, console); !code || *code != 0)
      return code;
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    if (!recordings_[i].is_tuned) continue;
    if (const auto code = run_printed(tune_command(), paths[i], console); !code || *code != 0)
      return code;
  }
  return 0;
}

}  // namespace

std::unique_ptr<Command> demo_command() { return std::make_unique<DemoCommand>(); }

}  // namespace vram::cli
