#include "cli/user_folder.hpp"

#include <cstdlib>

namespace vram::cli {
namespace {

std::filesystem::path named(const char* variable) {
  const char* const value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

}  // namespace

std::filesystem::path user_folder(const char* variable, const char* below_home) {
  std::filesystem::path folder = named(variable);
  if (folder.is_relative() && named("HOME").is_absolute()) folder = named("HOME") / below_home;
  return folder.is_relative() ? std::filesystem::path() : folder / "vram";
}

}  // namespace vram::cli
