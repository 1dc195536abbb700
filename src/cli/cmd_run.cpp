// vram run: a program, unchanged, with the pool under its PyTorch or CuPy. Becomes the program:
// same process, same streams, its exit code.
#include "base/bytes.hpp"
#include "cli/command.hpp"
#include "cli/startup.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace vram::cli {
namespace {

class RunCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<PoolSettings> settings() const;

  std::vector<std::string> command_;
  bool pool_ = false;
  std::string limit_;
};

const Manual& RunCommand::manual() const {
  static const Manual kManual = {
      "run",
      "a program under vram's pool, without a change to it",
      "--pool [--limit SIZE] -- CMD...",
      "Runs CMD so that, in each Python process of it, the pool is put under PyTorch or CuPy as "
      "soon as that is imported. Processes that it starts (DataLoader workers, torchrun's ranks) "
      "inherit this. Where there can't be a pool (no GPU, a PyTorch without CUDA) one line on "
      "standard error says why, and the program runs as without vram. Pythons that are told to "
      "ignore PYTHONPATH (python -I, -E, -S) run without it, too.",
      {{"vram run --pool -- python train.py --lr 3e-4", "train with the pool"},
       {"vram run --pool --limit 20GiB -- torchrun --nproc-per-node 2 train.py",
        "two ranks, each with at most 20 GiB of its device reserved"}}};
  return kManual;
}

std::vector<Option> RunCommand::options() {
  return {{"CMD", "CMD", "the program and its arguments, behind --", &command_},
          {"--pool", "", "put the pool under PyTorch and CuPy", &pool_},
          {"--limit", "SIZE", "reserve at most so much of each device, such as 20GiB", &limit_}};
}

Result<PoolSettings> RunCommand::settings() const {
  PoolSettings settings;
  if (limit_.empty()) return settings;
  const auto bytes = parse_bytes(limit_);
  if (!bytes) return fail(Code::kBadInput, "--limit: {}", bytes.error().message);
  if (*bytes == 0)
    return fail(Code::kBadInput, "--limit takes more than 0 bytes, found '{}'", limit_);
  settings.limit_bytes = *bytes;
  return settings;
}

// Replaces this process; answers only if that fails.
tl::unexpected<Error> become(const std::vector<std::string>& command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);  // the program's own business again, see cli::run
  (void)execvp(words.front(), words.data());
  return fail(Code::kBadInput, "can't run '{}': {}; name a program on PATH or by its path",
              command.front(), std::strerror(errno));
}

Result<int> RunCommand::run(Console&) {
  if (!pool_) {
    return fail(Code::kBadInput, "nothing to run '{}' under; name --pool: vram run --pool -- {}",
                command_.front(), fmt::join(command_, " "));
  }
  const auto settings = this->settings();
  if (!settings) return tl::unexpected(settings.error());
  const auto folder = startup_folder();
  if (!folder) return tl::unexpected(folder.error());
  const char* const python_path = std::getenv("PYTHONPATH");
  for (const auto& [name, value] :
       pool_environment(*folder, python_path == nullptr ? "" : python_path, *settings))
    (void)setenv(name.c_str(), value.c_str(), 1);
  return become(command_);
}

}  // namespace

std::unique_ptr<Command> run_command() { return std::make_unique<RunCommand>(); }

}  // namespace vram::cli
