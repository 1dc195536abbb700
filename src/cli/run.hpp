// The program: picks the command, runs it, turns what went wrong into one line and an exit code.
// The door at which foreign exceptions are caught.
#pragma once

#include "cli/command.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace vram::cli {

// Exit codes: 0 done, 1 a gate or finding failed, 2 bad usage or input, 3 environment. `build` is
// what --version prints behind the version.
int run(int argc, char** argv, std::string_view build);

// The build that this program is. Defined in a file that is written at each build
// (cmake/commit.cmake) and that only main.cpp refers to: a new commit compiles nothing else.

extern const char* const kBuild;  // "commit d250712, Release", "unknown commit, Debug"

// The manual as text: the program's and each command's.

[[nodiscard]] std::string program_help(std::span<const std::unique_ptr<Command>> commands);
[[nodiscard]] std::string command_help(Command& command);

}  // namespace vram::cli
