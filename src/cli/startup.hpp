// Startup: how a Python program comes under vram without a change to it. A folder of the installed
// package, put first on PYTHONPATH, has a sitecustomize.py that Python runs at its start; the
// program's children inherit it.
#pragma once

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
  std::string path;    // absolute
  std::string stacks;  // "python", "native", or none
  std::optional<uint64_t> limit_bytes;
};

struct StartupSettings {
  std::optional<PoolSettings> pool;
  std::optional<RecordSettings> record;
};

// The folder: VRAM_STARTUP's, or the one of the package that was installed with this program.
[[nodiscard]] Result<std::string> startup_folder();

// The environment's changes for a program under vram, as name and value. now_s: unix time.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> startup_environment(
    std::string_view folder, std::string_view python_path, const StartupSettings& settings,
    int64_t now_s);

}  // namespace vram::cli
