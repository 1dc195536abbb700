// vram run: a program, unchanged, with the pool under its PyTorch or CuPy, or recorded, or both; or
// its dry run. Becomes the program: same process, same streams, its exit code.
#include "base/bytes.hpp"
#include "base/environment.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
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

struct DrySettings {
  std::string gpu;  // empty: the default
  std::optional<uint64_t> steps;
  bool json = false;
  std::string trace;  // empty: it is not kept
  std::vector<std::string> assumed;

  // As options of `python -m vram.dry`.
  [[nodiscard]] std::vector<std::string> words() const;
};

std::vector<std::string> DrySettings::words() const {
  std::vector<std::string> words;
  if (!gpu.empty()) words.insert(words.end(), {"--gpu", gpu});
  if (steps) words.insert(words.end(), {"--steps", fmt::format("{}", *steps)});
  if (json) words.emplace_back("--json");
  if (!trace.empty()) words.insert(words.end(), {"--output", trace});
  for (const std::string& each : assumed) words.insert(words.end(), {"--assume", each});
  return words;
}

class RunCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<StartupSettings> settings() const;
  [[nodiscard]] Result<int> run_dry() const;

  std::vector<std::string> command_;
  bool pool_ = false;
  PoolSettings pool_settings_;
  RecordSettings record_;  // an empty path: no recording
  std::string flight_;     // a folder; empty: no flight recorder
  bool force_ = false;
  bool dry_ = false;
  DrySettings dry_settings_;
  bool strict_ = false;
};

const Manual& RunCommand::manual() const {
  static const Manual kManual = {
      "run",
      tr("run a program with vram's pool, record it, or predict its memory, without changing it"),
      "[--pool [--limit SIZE]] [--record FILE | --flight DIR] [--stacks KIND] [--force] [--strict] "
      "| --dry [--gpu "
      "GPU] [--steps N] [--json] [--output FILE] [--assume FILE:LINE=VALUE] -- CMD...",
      tr("Runs CMD, unchanged. --pool makes PyTorch and CuPy use vram's pool as soon as they are "
         "imported. --record writes GPU memory events to FILE: those of vram's pool and of "
         "PyTorch's "
         "own allocator, and in other programs the CUDA driver's memory calls (docs/record.md). If "
         "CMD is one of several ranks, the file is run.rank0.vtrace and so on; other processes of "
         "CMD "
         "write run.4711.vtrace. A process without events writes no file. A recording or report "
         "with "
         "the same name is replaced, another file only with --force. Processes started by CMD "
         "(DataLoader workers, torchrun's ranks) inherit all this. If the pool or the recording is "
         "not possible (no GPU, PyTorch without CUDA), one line on standard error says why and the "
         "program runs without vram; with --strict, vram exits with code 3 instead, or a process "
         "of "
         "CMD does when it imports a framework. With python -I, -E or -S, which ignore PYTHONPATH, "
         "there is no pool and only the driver's calls are recorded; --strict rejects such a CMD. "
         "--flight lets a Python program's flight recorder write to DIR when a request for memory "
         "fails, at a crash or SIGTERM, and for vram record (docs/flight-recorder.md). "
         "--dry runs a Python script on tensors without memory, stops it after four steps of its "
         "optimizer, and predicts its memory and whether it fits on a GPU, on a machine without "
         "one "
         "(docs/dry-run.md). Exit codes: 0 it fits, 1 it may not or the script failed, 2 a dry run "
         "cannot follow the script. More options: python -m vram.dry --help."),
      {{"vram run --record run.vtrace -- python train.py",
        tr("record, then vram report run.vtrace")},
       {"vram run --record run.vtrace --stacks python -- python train.py",
        tr("the report names lines of your code")},
       {"vram run --pool -- python train.py --lr 3e-4", tr("train with the pool")},
       {"vram run --pool --limit 20GiB -- torchrun --nproc-per-node 2 train.py",
        tr("two ranks, each reserves at most 20 GiB of its device")},
       {"vram run --dry --gpu 24GiB -- python train.py --lr 3e-4",
        tr("whether it fits on a GPU of 24 GiB")}}};
  return kManual;
}

Result<uint64_t> parse_limit(std::string_view text) {
  VRAM_TRY_ASSIGN(const auto bytes, parse_bytes(text));
  if (bytes >= kMiB) return bytes;
  return fail(Code::kBadInput,
              "expected at least 1 MiB, found '{}' ({} bytes); add a unit, as in 20GiB", text,
              bytes);
}

std::vector<Option> RunCommand::options() {
  return {{"CMD", "CMD", tr("the program and its arguments, after --"), program(&command_)},
          {"--pool", "", tr("make PyTorch and CuPy use vram's pool"), &pool_},
          {"--limit", "SIZE", tr("maximum memory that the pool reserves on each device: 20GiB"),
           value(pool_settings_.limit_bytes, parse_limit)},
          {"--record", "FILE", tr("record GPU memory events to this file"), file(&record_.path)},
          {"--flight", "DIR", tr("run a flight recorder that writes its files to this folder"),
           file(&flight_)},
          {"--stacks", "KIND", tr("also record the stack of each allocation: python or native"),
           choice<std::string>(record_.stacks, {{"python", "python"}, {"native", "native"}})},
          {"--record-limit", "SIZE",
           tr("maximum size of the recording on disk; the oldest events are dropped"),
           value(record_.limit_bytes, parse_limit)},
          {"--force", "", tr("replace FILE even if vram did not write it"), &force_},
          {"--strict", "", tr("exit with code 3 if the pool or the recording cannot be set up"),
           &strict_},
          {"--dry", "", tr("predict the memory of CMD, a Python script, without a GPU"), &dry_},
          {"--gpu", "GPU", tr("with --dry: name of a GPU, or its memory: 24GiB (default: H200)"),
           &dry_settings_.gpu},
          {"--steps", "N", tr("with --dry: stop after so many steps of the optimizer (default: 4)"),
           value(dry_settings_.steps, parse_number<uint64_t>)},
          {"--json", "", tr("with --dry: print JSON; what CMD prints goes to standard error"),
           for_programs(&dry_settings_.json)},
          {"-o,--output", "FILE", tr("with --dry: keep the trace in this file: dry.vtrace"),
           file(&dry_settings_.trace)},
          {"--assume", "FILE:LINE=VALUE",
           tr("with --dry: what to assume where CMD reads values of the GPU; may be repeated"),
           &dry_settings_.assumed}};
}

Result<StartupSettings> RunCommand::settings() const {
  StartupSettings settings;
  settings.is_strict = strict_;
  if (pool_) {
    settings.pool = pool_settings_;
  } else if (pool_settings_.limit_bytes) {
    return fail(Code::kBadInput, "--limit requires --pool");
  }
  if (!record_.path.empty()) {
    settings.record = record_;
    settings.record->path = std::filesystem::absolute(record_.path).string();
    settings.record->replace = replace_for(force_);
  } else if (record_.limit_bytes || force_) {
    return fail(Code::kBadInput, "--record-limit and --force require --record");
  }
  if (!flight_.empty()) {
    if (settings.record) {
      return fail(Code::kBadInput,
                  "--flight and --record exclude each other: a recording has all that a flight "
                  "recorder retains");
    }
    settings.flight = {std::filesystem::absolute(flight_).string(), record_.stacks};
  } else if (!settings.record && !record_.stacks.empty()) {
    return fail(Code::kBadInput, "--stacks requires --record or --flight");
  }
  return settings;
}

// Replaces this process; answers only if that fails.
tl::unexpected<Error> become(const std::vector<std::string>& command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  // The program's own business again, see cli::run.
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
  (void)execvp(words.front(), words.data());
  return fail(Code::kBadInput, "cannot run '{}': {}; expected a program on PATH or a path",
              command.front(), std::strerror(errno));
}

// The new run may have no process of these numbers, so its own do not take their place.
void report_earlier_runs(const std::string& path, const Console& console) {
  const std::vector<std::string> left = left_by_processes(path);
  if (left.empty()) return;
  console.warning(
      trf("earlier runs left {} next to {} ({}{}); a report on the folder would include "
          "them: remove them, or record each run to its own folder",
          left.size() == 1 ? tr("a recording") : trf("{} recordings", left.size()),
          std::filesystem::path(path).filename().string(), left.front(),
          left.size() == 1 ? "" : tr(" and others")));
}

void set_environment(const CurrentEnvironment& current, const StartupSettings& settings) {
  for (const auto& [name, value] : startup_environment(current, settings, std::time(nullptr)))
    (void)setenv(name.c_str(), value.c_str(), 1);
}

// That what is there may be replaced, and that files can be made next to it; a pipe or a device is
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
  return fail(Code::kBadInput, "--record: cannot write to {}: {}", folder.string(),
              std::strerror(errno));
}

// What the program needs around it; where it is known already that it can't be had, why.
Result<CurrentEnvironment> current_environment_for(const StartupSettings& settings,
                                                   const std::vector<std::string>& command) {
  if (settings.record) {
    VRAM_TRY(check_place(*settings.record));
  }
  VRAM_TRY_ASSIGN(const auto folder, startup_folder());
  CurrentEnvironment current = {folder, tap_library(folder), environment("PYTHONPATH"),
                                environment("LD_PRELOAD")};
  if (settings.is_strict) {
    VRAM_TRY(check_startup(current, settings));
    VRAM_TRY(check_python_options(command));
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
        trf("{}; this run is recorded next to it, with process numbers in the file names",
            removed.error().message));
  }
  report_earlier_runs(path, console);
  return {};
}

Result<int> RunCommand::run_dry() const {
  VRAM_TRY_ASSIGN(auto settings, this->settings());
  if (settings.pool || settings.record || settings.flight || settings.is_strict) {
    return fail(Code::kBadInput,
                "--dry cannot be combined with --pool, --record, --flight or --strict");
  }
  settings.is_dry = true;
  VRAM_TRY_ASSIGN(const auto command, dry_command(command_, dry_settings_.words()));
  VRAM_TRY_ASSIGN(const auto folder, startup_folder());
  const CurrentEnvironment current = {folder, "", environment("PYTHONPATH"), ""};
  set_environment(current, settings);
  return become(command);
}

Result<int> RunCommand::run(Console& console) {
  if (dry_) return run_dry();
  if (!dry_settings_.words().empty()) {
    return fail(Code::kBadInput, "--gpu, --steps, --json and --output require --dry");
  }
  if (!pool_ && record_.path.empty() && flight_.empty()) {
    return fail(Code::kBadInput,
                "expected --pool, --record, --flight or --dry before '{}': vram run --pool -- {}",
                command_.front(), fmt::join(command_, " "));
  }
  VRAM_TRY_ASSIGN(const auto settings, this->settings());
  const auto current = current_environment_for(settings, command_);
  if (!current) {
    console.error(current.error().message);
    return strict_ ? kEnvironment : kBadUsage;
  }
  // Processes of this run that find the name taken take another.
  if (const auto freed = free_name(settings, console); !freed) {
    console.error(freed.error().message);
    return kEnvironment;
  }
  set_environment(*current, settings);
  return become(command_);
}

}  // namespace

std::unique_ptr<Command> run_command() { return std::make_unique<RunCommand>(); }

}  // namespace vram::cli
