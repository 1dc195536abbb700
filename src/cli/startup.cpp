#include "cli/startup.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>

namespace vram::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFile = "sitecustomize.py";

// Where installers put packages, below the prefix of the folder that the program lies in.
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
  if (const char* const named = std::getenv("VRAM_STARTUP"); named != nullptr && *named != '\0') {
    if (has_startup(named)) return std::string(named);
    return fail(Code::kBadInput, "VRAM_STARTUP names {}, which has no {}; unset it", named, kFile);
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path prefix = program.parent_path().parent_path();
  if (const auto folder = find_below(prefix)) return folder->string();
  return fail(Code::kBadInput,
              "no vram package below {} (lib/python3*/site-packages/vram/_startup), where {} was "
              "installed; install vram with pip, or set VRAM_STARTUP to the package's folder "
              "_startup",
              prefix.string(), program.string());
}

std::vector<std::pair<std::string, std::string>> startup_environment(
    std::string_view folder, std::string_view python_path, const StartupSettings& settings,
    int64_t now_s) {
  std::vector<std::pair<std::string, std::string>> changes;
  const std::string behind = python_path.empty() ? "" : fmt::format(":{}", python_path);
  changes.emplace_back("PYTHONPATH", fmt::format("{}{}", folder, behind));
  if (settings.pool) {
    changes.emplace_back("VRAM_POOL", "1");
    if (const auto& limit = settings.pool->limit_bytes)
      changes.emplace_back("VRAM_LIMIT", fmt::format("{}", *limit));
  }
  if (settings.record) {
    changes.emplace_back("VRAM_RECORD", settings.record->path);
    changes.emplace_back("VRAM_RECORD_SINCE", fmt::format("{}", now_s));
    changes.emplace_back("VRAM_RECORD_STACKS", settings.record->stacks);
    if (const auto& limit = settings.record->limit_bytes)
      changes.emplace_back("VRAM_RECORD_LIMIT", fmt::format("{}", *limit));
  }
  return changes;
}

}  // namespace vram::cli
