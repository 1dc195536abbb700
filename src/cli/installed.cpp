#include "cli/installed.hpp"

#include <system_error>

namespace vram::cli {

std::filesystem::path program_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::filesystem::path installation_prefix() { return program_path().parent_path().parent_path(); }

}  // namespace vram::cli
