// vram run: a program, unchanged, with the pool under its PyTorch or CuPy, or recorded, or both.
// Becomes the program: same process, same streams, its exit code.
#include "base/bytes.hpp"
#include "base/environment.hpp"
#include "cli/command.hpp"
#include "cli/exit_codes.hpp"
#include "cli/output.hpp"
#include "cli/recordings.hpp"
#include "cli/startup.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <unistd.h>

namespace vram::cli {
namespace {

class RunCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<PoolSettings> pool_settings() const;
  [[nodiscard]] Result<RecordSettings> record_settings() const;
  [[nodiscard]] Result<StartupSettings> settings() const;

  std::vector<std::string> command_;
  bool pool_ = false;
  std::string limit_;
  std::string record_;
  std::string stacks_;
  std::string record_limit_;
  bool force_ = false;
  bool strict_ = false;
};

const Manual& RunCommand::manual() const {
  static const Manual kManual = {
      "run",
      "a program under vram's pool, or recorded, without a change to it",
      "[--pool [--limit SIZE]] [--record FILE [--stacks KIND] [--force]] [--strict] -- CMD...",
      "Runs CMD, unchanged. --pool puts vram's pool under PyTorch or CuPy as soon as that is "
      "imported. --record writes what happens to GPU memory to FILE: what vram's pool and "
      "PyTorch's own allocator do, and in programs of any other kind the CUDA driver's calls "
      "(docs/record.md). A rank of several writes to run.rank0.vtrace and so on, a second "
      "process to run.4711.vtrace; where there was nothing to record there is no file. "
      "A recording or report of that name is replaced, any other file with --force alone. "
      "Processes that CMD starts (DataLoader workers, torchrun's ranks) inherit all this. Where "
      "something can't be had (no GPU, a PyTorch without CUDA) one line on standard error says "
      "why, and the program runs as without vram; with --strict it does not: the command, or a "
      "process of the program as soon as it imports a framework, ends with exit code 3. Pythons "
      "that are told to ignore PYTHONPATH "
      "(python -I, -E, -S) have no pool, and of them only the driver's calls are recorded; "
      "--strict refuses a CMD that is one.",
      {{"vram run --record run.vtrace -- python train.py", "record; then vram report run.vtrace"},
       {"vram run --record run.vtrace --stacks python -- python train.py",
        "the report names lines of your code"},
       {"vram run --pool -- python train.py --lr 3e-4", "train with the pool"},
       {"vram run --pool --limit 20GiB -- torchrun --nproc-per-node 2 train.py",
        "two ranks, each with at most 20 GiB of its device reserved"}}};
  return kManual;
}

std::vector<Option> RunCommand::options() {
  return {
      {"CMD", "CMD", "the program and its arguments, behind --", &command_},
      {"--pool", "", "put the pool under PyTorch and CuPy", &pool_},
      {"--limit", "SIZE", "the pool reserves at most so much of each device: 20GiB", &limit_},
      {"--record", "FILE", "record what happens to GPU memory", &record_},
      {"--stacks", "KIND", "also record which code asked for memory: python or native", &stacks_},
      {"--record-limit", "SIZE",
       "the recording takes at most so much of the disk: the latest stays", &record_limit_},
      {"--force", "", "replace FILE even if vram did not write it", &force_},
      {"--strict", "", "end with exit code 3 where the pool or the recording can't be set up",
       &strict_}};
}

Result<uint64_t> size_of(std::string_view option, const std::string& text) {
  const auto bytes = parse_bytes(text);
  if (!bytes) return fail(Code::kBadInput, "{}: {}", option, bytes.error().message);
  if (*bytes < kMiB) {
    return fail(Code::kBadInput,
                "{} '{}' is {} bytes, and 1 MiB is the least; write the unit, as in 20GiB", option,
                text, *bytes);
  }
  return *bytes;
}

Result<PoolSettings> RunCommand::pool_settings() const {
  PoolSettings settings;
  if (limit_.empty()) return settings;
  const auto bytes = size_of("--limit", limit_);
  if (!bytes) return tl::unexpected(bytes.error());
  settings.limit_bytes = *bytes;
  return settings;
}

Result<RecordSettings> RunCommand::record_settings() const {
  RecordSettings settings;
  settings.path = std::filesystem::absolute(record_).string();
  if (!stacks_.empty() && stacks_ != "python" && stacks_ != "native")
    return fail(Code::kBadInput, "--stacks takes python or native, found '{}'", stacks_);
  settings.stacks = stacks_;
  settings.replace = replace_for(force_);
  if (record_limit_.empty()) return settings;
  const auto bytes = size_of("--record-limit", record_limit_);
  if (!bytes) return tl::unexpected(bytes.error());
  settings.limit_bytes = *bytes;
  return settings;
}

Result<StartupSettings> RunCommand::settings() const {
  StartupSettings settings;
  settings.is_strict = strict_;
  if (pool_) {
    const auto pool = pool_settings();
    if (!pool) return tl::unexpected(pool.error());
    settings.pool = *pool;
  } else if (!limit_.empty()) {
    return fail(Code::kBadInput, "--limit is the pool's: name --pool, too");
  }
  if (!record_.empty()) {
    const auto record = record_settings();
    if (!record) return tl::unexpected(record.error());
    settings.record = *record;
  } else if (!stacks_.empty() || !record_limit_.empty() || force_) {
    return fail(Code::kBadInput,
                "--stacks, --record-limit and --force are about a recording: name --record");
  }
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

// The new run may have no process of these numbers, so its own do not take their place.
void report_earlier_runs(const std::string& path, const Console& console) {
  const std::vector<std::string> left = left_by_processes(path);
  if (left.empty()) return;
  console.warning(fmt::format(
      "processes of earlier runs left {} beside {} ({}{}); a report on the folder would count them "
      "in: remove them, or record each run into a folder of its own",
      left.size() == 1 ? "a recording" : fmt::format("{} recordings", left.size()),
      std::filesystem::path(path).filename().string(), left.front(),
      left.size() == 1 ? "" : " and others"));
}

// That what is there may be replaced, and that files can be made beside it; a pipe or a device is
// written in place.
Result<> check_place(const RecordSettings& record) {
  const auto target = find_output_target(record.path, record.replace);
  if (!target) {
    const Error error =
        record.replace == Replace::kAny ? target.error() : with_force(target.error());
    return fail(error.code, "--record: {}", error.message);
  }
  if (target->kind == OutputTarget::Kind::kInPlace) return {};
  const std::filesystem::path folder = std::filesystem::path(target->path).parent_path();
  if (access(folder.c_str(), W_OK) == 0) return {};
  return fail(Code::kBadInput, "--record: can't write in {}: {}", folder.string(),
              std::strerror(errno));
}

// What the program needs around it; where it is known already that it can't be had, why.
Result<CurrentEnvironment> current_environment_for(const StartupSettings& settings,
                                                   const std::vector<std::string>& command) {
  if (settings.record) {
    if (const auto checked = check_place(*settings.record); !checked)
      return tl::unexpected(checked.error());
  }
  const auto folder = startup_folder();
  if (!folder) return tl::unexpected(folder.error());
  CurrentEnvironment current = {*folder, tap_library(*folder), environment("PYTHONPATH"),
                                environment("LD_PRELOAD")};
  if (settings.is_strict) {
    if (const auto checked = check_startup(current, settings); !checked)
      return tl::unexpected(checked.error());
    if (const auto checked = check_python_options(command); !checked)
      return tl::unexpected(checked.error());
  }
  return current;
}

// Makes the recording's name free for the program. kIo: it stays taken, and the run is strict.
Result<> free_name(const StartupSettings& settings, const Console& console) {
  if (!settings.record) return {};
  const std::string& path = settings.record->path;
  if (const auto removed = remove_earlier_recording(*settings.record); !removed) {
    if (settings.is_strict) return removed;
    console.warning(
        fmt::format("{}; this run is recorded beside it, with process numbers in the "
                    "files' names",
                    removed.error().message));
  }
  report_earlier_runs(path, console);
  return {};
}

Result<int> RunCommand::run(Console& console) {
  if (!pool_ && record_.empty()) {
    return fail(Code::kBadInput,
                "nothing to run '{}' under; name --pool or --record: vram run --pool -- {}",
                command_.front(), fmt::join(command_, " "));
  }
  const auto settings = this->settings();
  if (!settings) return tl::unexpected(settings.error());
  const auto current = current_environment_for(*settings, command_);
  if (!current) {
    console.error(current.error().message);
    return strict_ ? kEnvironment : kBadUsage;
  }
  // Processes of this run that find the name taken take another.
  if (const auto freed = free_name(*settings, console); !freed) {
    console.error(freed.error().message);
    return kEnvironment;
  }
  for (const auto& [name, value] : startup_environment(*current, *settings, std::time(nullptr)))
    (void)setenv(name.c_str(), value.c_str(), 1);
  return become(command_);
}

}  // namespace

std::unique_ptr<Command> run_command() { return std::make_unique<RunCommand>(); }

}  // namespace vram::cli
