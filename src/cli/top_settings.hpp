// The file of vram top's settings: read at its start, written at its end when something changed.
// One thread.
#pragma once

#include "base/result.hpp"
#include "show/top/settings.hpp"

#include <string>

namespace vram::cli {

// $XDG_CONFIG_HOME/vram/top.toml; empty where the environment names no place.
[[nodiscard]] std::string top_settings_path();

// None where there is no file. An error says what is wrong with the one there is.
[[nodiscard]] Result<show::top::Settings> read_top_settings(const std::string& path);

// Puts what changed over what the file says by now, so that of two that end one after the other the
// last one wins; the file is whole at any time. A file that can't be understood stays as it is.
[[nodiscard]] Result<> keep_top_settings(const std::string& path,
                                         const show::top::Settings& changed);

}  // namespace vram::cli
