// Where this program is installed; its data files are found from there.
#pragma once

#include <filesystem>

namespace vram::cli {

// The program's own file, links resolved.
[[nodiscard]] std::filesystem::path program_path();

// The folder above the program's: /usr/local of /usr/local/bin/vram, a virtual environment.
[[nodiscard]] std::filesystem::path installation_prefix();

}  // namespace vram::cli
