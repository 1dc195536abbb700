#include "cli/folders.hpp"

#include "base/environment.hpp"

#include <system_error>

namespace vram::cli {

std::filesystem::path user_folder(const char* variable, const char* below_home) {
  std::filesystem::path folder = environment(variable);
  const std::filesystem::path home = environment("HOME");
  if (folder.is_relative() && home.is_absolute()) folder = home / below_home;
  return folder.is_relative() ? std::filesystem::path() : folder / "vram";
}

std::filesystem::path program_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::filesystem::path installation_prefix() { return program_path().parent_path().parent_path(); }

}  // namespace vram::cli
