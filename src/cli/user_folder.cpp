#include "cli/user_folder.hpp"

#include "base/environment.hpp"

namespace vram::cli {

std::filesystem::path user_folder(const char* variable, const char* below_home) {
  std::filesystem::path folder = environment(variable);
  const std::filesystem::path home = environment("HOME");
  if (folder.is_relative() && home.is_absolute()) folder = home / below_home;
  return folder.is_relative() ? std::filesystem::path() : folder / "vram";
}

}  // namespace vram::cli
