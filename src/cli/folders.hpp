// The folders for a user's files, following the XDG base directory specification.
#pragma once

#include <filesystem>

namespace vram::cli {

// vram's folder in what the variable names, else in the folder below the home; empty where the
// environment names no place. It may not exist.
[[nodiscard]] std::filesystem::path user_folder(const char* variable, const char* below_home);

// Where this program is installed; its data files are found from there.

// The program's own file, links resolved.
[[nodiscard]] std::filesystem::path program_path();

// The folder above the program's: /usr/local of /usr/local/bin/vram, a virtual environment.
[[nodiscard]] std::filesystem::path installation_prefix();

}  // namespace vram::cli
