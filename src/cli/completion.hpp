// Completions of the command line for shells, written from the tables of options by which the
// commands parse it. Pure functions.
#pragma once

#include "cli/command.hpp"

#include <memory>
#include <span>
#include <string>

namespace vram::cli {

// Scripts that complete commands, options, the values that are choices, files, and programs.
[[nodiscard]] std::string bash_completion(std::span<const std::unique_ptr<Command>> commands);
[[nodiscard]] std::string zsh_completion(std::span<const std::unique_ptr<Command>> commands);
[[nodiscard]] std::string fish_completion(std::span<const std::unique_ptr<Command>> commands);

}  // namespace vram::cli
