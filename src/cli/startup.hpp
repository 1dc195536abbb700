// Startup: how a Python program comes under vram without a change to it. A folder of the installed
// package, put first on PYTHONPATH, has a sitecustomize.py that Python runs at its start; the
// program's children inherit it.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::cli {

struct PoolSettings {
  std::optional<uint64_t> limit_bytes;  // of each device
};

struct RecordSettings {
  std::string path;  // absolute
  Replace replace = Replace::kOwn;
  std::string stacks;  // "python", "native", or none
  std::optional<uint64_t> limit_bytes;
};

struct FlightSettings {
  std::string folder;  // absolute
  std::string stacks;  // empty: the default
};

struct CurrentEnvironment {
  std::string startup_folder;
  std::string tap_library;
  std::string python_path;  // PYTHONPATH, as it was
  std::string preloaded;    // LD_PRELOAD, as it was
};

struct StartupSettings {
  std::optional<PoolSettings> pool;
  std::optional<RecordSettings> record;
  std::optional<FlightSettings> flight;  // not with a recording
  bool is_dry = false;                   // the program is `python -m vram.dry`
  bool is_strict = false;                // what can't be set up ends the program
};

// The folder: VRAM_STARTUP's, or the one of the package that was installed with this program.
[[nodiscard]] Result<std::string> startup_folder();

// The library to preload into recorded programs: below the startup folder's package, or in the
// folder of VRAM_LIBRARY; empty if there is none.
[[nodiscard]] std::string tap_library(const std::string& startup_folder);

// Checks what `settings` needs, as far as possible before the program runs: the C library, and for
// a recording the preloaded library and a file that can be created. Leaves no file behind.
[[nodiscard]] Result<> check_startup(const CurrentEnvironment& current,
                                     const StartupSettings& settings);

// kBadInput: `command` is a Python with an option (-E, -I, -S) by which it never runs the startup
// folder's file.
[[nodiscard]] Result<> check_python_options(const std::vector<std::string>& command);

// The command line of a Python program's dry run: `python -m vram.dry OPTIONS SCRIPT ...`.
// kBadInput: `command` is no Python program that a dry run can run.
[[nodiscard]] Result<std::vector<std::string>> dry_command(std::vector<std::string> command,
                                                           const std::vector<std::string>& options);

// Removes the recording of an earlier run, so that the program can write to its name. kIo: there
// is something that can't be removed. Else as find_output_target().
[[nodiscard]] Result<> remove_earlier_recording(const RecordSettings& record);

// The environment's changes for a program under vram, as name and value; tap and preloaded may be
// empty. now_s: unix time.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> startup_environment(
    const CurrentEnvironment& current, const StartupSettings& settings, int64_t now_s);

}  // namespace vram::cli
