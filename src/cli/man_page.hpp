// Manual pages in the format of man(7), written from the same manuals and tables of options as
// --help. Pure functions.
#pragma once

#include "cli/command.hpp"

#include <memory>
#include <span>
#include <string>

namespace vram::cli {

// vram(1), with the list of commands.
[[nodiscard]] std::string program_man_page(std::span<const std::unique_ptr<Command>> commands);
// vram-COMMAND(1).
[[nodiscard]] std::string command_man_page(Command& command);

}  // namespace vram::cli
