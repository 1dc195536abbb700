// Where the program's files are: the folders for a user's files, following the XDG base directory
// specification; the folder that the program is installed in; and its demo recordings.
#pragma once

#include "base/result.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace vram::cli {

// vram's folder in what the variable names, else in the folder below the home; empty where the
// environment names no place. It may not exist.
[[nodiscard]] std::filesystem::path user_folder(const char* variable, const char* below_home);

// Where this program is installed; its data files are found from there.

// The program's own file, links resolved.
[[nodiscard]] std::filesystem::path program_path();

// The folder above the program's: /usr/local of /usr/local/bin/vram, a virtual environment.
[[nodiscard]] std::filesystem::path installation_prefix();

// The recordings that are installed with the program, for `vram demo` and `--gpu sim`.
struct DemoRecording {
  std::string_view name;   // on the command line
  std::string_view file;   // in the folder of recordings
  std::string_view about;  // one line
  bool is_tuned = false;   // `vram demo` also searches for its best settings
};

// The first one is played by `--gpu sim`.
[[nodiscard]] std::span<const DemoRecording> demo_recordings();

// The path of an installed recording, in share/vram/demo below the program's prefix; relative if it
// is below the working directory. kNotFound: not installed; the message names the searched folder.
[[nodiscard]] Result<std::string> demo_path(const DemoRecording& recording);

}  // namespace vram::cli
