// The file of vram top's settings: read at its start, written at its end when something changed.
// One thread.
#pragma once

#include "base/result.hpp"
#include "show/top/settings.hpp"

#include <string>

namespace vram::cli {

// $XDG_CONFIG_HOME/vram/top.toml; empty if the environment does not define it.
[[nodiscard]] std::string top_settings_path();

// None if there is no file. An error says what is wrong with the file.
[[nodiscard]] Result<show::top::Settings> read_top_settings(const std::string& path);

// Merges the changes into the current file, so that of two programs the last one to end wins; the
// file is complete at any time. An invalid file is not changed.
[[nodiscard]] Result<> keep_top_settings(const std::string& path,
                                         const show::top::Settings& changed);

}  // namespace vram::cli
