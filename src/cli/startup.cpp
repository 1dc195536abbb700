#include "cli/startup.hpp"

#include "base/environment.hpp"
#include "base/result.hpp"
#include "cli/folders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace vram::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFile = "sitecustomize.py";

// Where installers put packages, below the prefix of the program's folder.
constexpr std::array kPackages = {"site-packages", "dist-packages"};

bool has_startup(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kFile, error);
}

std::optional<fs::path> find_below(const fs::path& prefix) {
  for (const std::string_view library : {"lib", "lib64", "local/lib"}) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(prefix / library, error)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const std::string_view packages : kPackages) {
        fs::path folder = entry.path() / packages / "vram" / "_startup";
        if (has_startup(folder)) return folder;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::string> startup_folder() {
  if (std::string named = trusted_environment("VRAM_STARTUP"); !named.empty()) {
    if (has_startup(named)) return named;
    return fail(Code::kBadInput, "VRAM_STARTUP names {}, which has no {}; unset it", named, kFile);
  }
  const fs::path program = program_path();
  const fs::path prefix = installation_prefix();
  if (const auto folder = find_below(prefix)) return folder->string();
  return fail(Code::kBadInput,
              "no vram package below {} (lib/python3*/site-packages/vram/_startup), where {} was "
              "installed; install vram with pip, or set VRAM_STARTUP to the package's folder "
              "_startup",
              prefix.string(), program.string());
}

std::string tap_library(const std::string& startup_folder) {
  const std::string library = trusted_environment("VRAM_LIBRARY");
  const fs::path folder = library.empty() ? fs::path(startup_folder).parent_path() / "lib"
                                          : fs::path(library).parent_path();
  const fs::path tap = folder / "libvram_tap.so";
  std::error_code error;
  return fs::is_regular_file(tap, error) ? tap.string() : "";
}

namespace {

// libvram.so, as the package finds it (python/vram/_library.py).
fs::path c_library(const std::string& startup_folder) {
  if (std::string named = trusted_environment("VRAM_LIBRARY"); !named.empty()) return named;
  return fs::path(startup_folder).parent_path() / "lib" / "libvram.so";
}

// By making it, under a name of its own: a recording of an earlier run stays. What is written in
// place is not opened beforehand: that could end the reader of a pipe.
Result<> check_can_be_written(const RecordSettings& record) {
  VRAM_TRY_ASSIGN(const auto target, find_output_target(record.path, record.replace));
  if (target.kind == OutputTarget::Kind::kInPlace) return {};
  const std::string& path = target.path;
  std::string probe = path + ".XXXXXX";
  const int descriptor = mkstemp(probe.data());
  if (descriptor < 0)
    return fail(Code::kIo, "--record: can't write {}: {}", path, std::strerror(errno));
  (void)close(descriptor);
  (void)unlink(probe.c_str());
  return {};
}

}  // namespace

Result<> check_startup(const CurrentEnvironment& current, const StartupSettings& settings) {
  const fs::path library = c_library(current.startup_folder);
  std::error_code error;
  if (!fs::is_regular_file(library, error)) {
    return fail(Code::kNotFound,
                "no library {}; install vram again, or set VRAM_LIBRARY to libvram.so",
                library.string());
  }
  if (!settings.record) return {};
  if (current.tap_library.empty()) {
    return fail(Code::kNotFound,
                "no libvram_tap.so next to {}, so that the CUDA driver's calls can't be recorded; "
                "install vram again",
                library.string());
  }
  return check_can_be_written(*settings.record);
}

namespace {

bool is_python(const std::string& word) {
  const std::string name = fs::path(word).filename().string();
  return name.starts_with("python") || name.starts_with("pypy");
}

// A cluster of Python's one-letter options, such as -uE.
struct Cluster {
  bool ignores_startup = false;    // it has E, I or S
  bool takes_next_word = false;    // it ends with an option whose value is the next word
  bool names_the_program = false;  // -c or -m: the rest is the program's
};

Cluster read_cluster(std::string_view letters) {
  Cluster cluster;
  for (size_t at = 0; at < letters.size(); ++at) {
    switch (letters[at]) {
      case 'E':
      case 'I':
      case 'S':
        cluster.ignores_startup = true;
        break;
      case 'c':
      case 'm':
        cluster.names_the_program = true;
        return cluster;
      case 'W':
      case 'X':
        cluster.takes_next_word = at + 1 == letters.size();
        return cluster;
      default:
        break;
    }
  }
  return cluster;
}

// Python's own options on a command line.
struct PythonOptions {
  size_t end = 1;  // the index of the script, or of the -c or -m; the size: there is none
  size_t ignoring_startup = 0;  // the index of the first with E, I or S; 0: none
};

PythonOptions read_python_options(const std::vector<std::string>& command) {
  PythonOptions found;
  size_t at = 1;
  for (; at < command.size(); ++at) {
    const std::string& word = command[at];
    if (word.size() < 2 || word.front() != '-' || word == "--") break;
    if (word.starts_with("--")) {  // the only one with a value
      if (word == "--check-hash-based-pycs") ++at;
      continue;
    }
    const Cluster cluster = read_cluster(std::string_view(word).substr(1));
    if (cluster.ignores_startup && found.ignoring_startup == 0) found.ignoring_startup = at;
    if (cluster.names_the_program) break;
    if (cluster.takes_next_word) ++at;
  }
  found.end = std::min(at, command.size());
  return found;
}

}  // namespace

Result<> check_python_options(const std::vector<std::string>& command) {
  if (command.empty() || !is_python(command.front())) return {};
  const size_t at = read_python_options(command).ignoring_startup;
  if (at == 0) return {};
  return fail(Code::kBadInput,
              "{} {} turns off PYTHONPATH or sitecustomize, by which vram gets into Python "
              "programs; leave out -E, -I and -S",
              command.front(), command[at]);
}

Result<std::vector<std::string>> dry_command(std::vector<std::string> command,
                                             const std::vector<std::string>& options) {
  VRAM_TRY(check_python_options(command));
  const size_t at = is_python(command.front()) ? read_python_options(command).end : 0;
  const std::string& script = at < command.size() ? command[at] : command.front();
  if (at == 0 || at == command.size() || (script.starts_with('-') && script != "-m")) {
    return fail(Code::kBadInput,
                "--dry: expected 'python SCRIPT' or 'python -m MODULE' after --, found '{}'",
                fmt::join(command, " "));
  }
  std::vector<std::string> inserted = {"-m", "vram.dry"};
  inserted.insert(inserted.end(), options.begin(), options.end());
  command.insert(command.begin() + static_cast<std::ptrdiff_t>(at), inserted.begin(),
                 inserted.end());
  return command;
}

Result<> remove_earlier_recording(const RecordSettings& record) {
  VRAM_TRY_ASSIGN(const auto target, find_output_target(record.path, record.replace));
  if (target.kind != OutputTarget::Kind::kFile) return {};
  if (unlink(target.path.c_str()) == 0 || errno == ENOENT) return {};
  return fail(Code::kIo, "--record: can't replace {}: {}; remove it, or name another file",
              record.path, std::strerror(errno));
}

namespace {

// first:rest
std::string before(const std::string& first, const std::string& rest) {
  return rest.empty() ? first : fmt::format("{}:{}", first, rest);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> startup_environment(
    const CurrentEnvironment& current, const StartupSettings& settings, int64_t now_s) {
  std::vector<std::pair<std::string, std::string>> changes;
  changes.emplace_back("PYTHONPATH", before(current.startup_folder, current.python_path));
  if (settings.pool) {
    changes.emplace_back("VRAM_POOL", "1");
    if (const auto& limit = settings.pool->limit_bytes)
      changes.emplace_back("VRAM_LIMIT", fmt::format("{}", *limit));
  }
  if (settings.record) {
    changes.emplace_back("VRAM_RECORD", settings.record->path);
    if (!current.tap_library.empty())
      changes.emplace_back("LD_PRELOAD", before(current.tap_library, current.preloaded));
    changes.emplace_back("VRAM_RECORD_SINCE", fmt::format("{}", now_s));
    changes.emplace_back("VRAM_RECORD_STACKS", settings.record->stacks);
    if (const auto& limit = settings.record->limit_bytes)
      changes.emplace_back("VRAM_RECORD_LIMIT", fmt::format("{}", *limit));
  }
  if (settings.flight) {
    changes.emplace_back("VRAM_FLIGHT", settings.flight->folder);
    if (!settings.flight->stacks.empty())
      changes.emplace_back("VRAM_FLIGHT_STACKS", settings.flight->stacks);
  }
  if (settings.is_dry) {
    changes.emplace_back("VRAM_DRY", "1");
    changes.emplace_back("VRAM_PROGRAM", program_path().string());
  }
  // Always: this run may be part of another that is strict.
  changes.emplace_back("VRAM_STRICT", settings.is_strict ? "1" : "0");
  return changes;
}

}  // namespace vram::cli
