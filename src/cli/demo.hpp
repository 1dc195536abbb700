// The recordings that are installed with the program, for `vram demo` and `--gpu sim`.
#pragma once

#include "base/result.hpp"

#include <span>
#include <string>
#include <string_view>

namespace vram::cli {

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
