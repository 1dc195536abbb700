// The manual as text: the program's and each command's.
#pragma once

#include "cli/command.hpp"

#include <memory>
#include <span>
#include <string>

namespace vram::cli {

[[nodiscard]] std::string program_help(std::span<const std::unique_ptr<Command>> commands);
[[nodiscard]] std::string command_help(Command& command);

}  // namespace vram::cli
