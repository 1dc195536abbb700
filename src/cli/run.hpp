// The program: picks the command, runs it, turns what went wrong into one line and an exit code.
// The door at which foreign exceptions are caught.
#pragma once

#include <string_view>

namespace vram::cli {

// Exit codes: 0 done, 1 a gate or finding failed, 2 bad usage or input, 3 environment. `build` is
// what --version prints behind the version.
int run(int argc, char** argv, std::string_view build);

}  // namespace vram::cli
