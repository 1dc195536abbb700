// Startup: how a Python program comes under vram without a change to it. A folder of the installed
// package, put first on PYTHONPATH, has a sitecustomize.py that Python runs at its start; the
// program's children inherit it.
#pragma once

#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::cli {

struct PoolSettings {
  std::optional<uint64_t> limit_bytes;  // of each device
};

// The folder: VRAM_STARTUP's, or the one of the package that was installed with this program.
[[nodiscard]] Result<std::string> startup_folder();

// The environment's changes for a program under the pool, as name and value.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> pool_environment(
    std::string_view folder, std::string_view python_path, const PoolSettings& settings);

}  // namespace vram::cli
