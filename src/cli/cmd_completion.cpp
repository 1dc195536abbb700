// vram completion: the completions of the command line for a shell.
#include "cli/command.hpp"
#include "cli/completion.hpp"

namespace vram::cli {
namespace {

using Script = std::string (*)(std::span<const std::unique_ptr<Command>> commands);

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
      "print completions of this command line for bash, zsh or fish",
      "bash|zsh|fish",
      "Prints a script with which a shell completes the commands, options and values of vram. "
      "The packages install it where each shell searches for it.",
      {{"source <(vram completion bash)", "complete in this shell, also in ~/.bashrc"},
       {"vram completion zsh > ~/.zfunc/_vram", "a folder of zsh's fpath"},
       {"vram completion fish > ~/.config/fish/completions/vram.fish", "all future fish shells"}}};
  return kManual;
}

std::vector<Option> CompletionCommand::options() {
  return {{"SHELL", "SHELL", "bash, zsh or fish",
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
