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

std::string tap_library(const std::string& startup_folder) {
  const char* const library = std::getenv("VRAM_LIBRARY");
  const fs::path folder = library != nullptr && *library != '\0'
                              ? fs::path(library).parent_path()
                              : fs::path(startup_folder).parent_path() / "lib";
  const fs::path tap = folder / "libvram_tap.so";
  std::error_code error;
  return fs::is_regular_file(tap, error) ? tap.string() : "";
}

namespace {

// first:rest
std::string before(const std::string& first, const std::string& rest) {
  return rest.empty() ? first : fmt::format("{}:{}", first, rest);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> startup_environment(
    const Surroundings& surroundings, const StartupSettings& settings, int64_t now_s) {
  std::vector<std::pair<std::string, std::string>> changes;
  changes.emplace_back("PYTHONPATH", before(surroundings.startup_folder, surroundings.python_path));
  if (settings.pool) {
    changes.emplace_back("VRAM_POOL", "1");
    if (const auto& limit = settings.pool->limit_bytes)
      changes.emplace_back("VRAM_LIMIT", fmt::format("{}", *limit));
  }
  if (settings.record) {
    changes.emplace_back("VRAM_RECORD", settings.record->path);
    if (!surroundings.tap_library.empty())
      changes.emplace_back("LD_PRELOAD", before(surroundings.tap_library, surroundings.preloaded));
    changes.emplace_back("VRAM_RECORD_SINCE", fmt::format("{}", now_s));
    changes.emplace_back("VRAM_RECORD_STACKS", settings.record->stacks);
    if (const auto& limit = settings.record->limit_bytes)
      changes.emplace_back("VRAM_RECORD_LIMIT", fmt::format("{}", *limit));
  }
  return changes;
}

}  // namespace vram::cli
