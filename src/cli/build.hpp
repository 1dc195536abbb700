// The build that this program is. Defined in a file that is written at each build
// (cmake/commit.cmake) and that only main.cpp refers to: a new commit compiles nothing else.
#pragma once

namespace vram::cli {

extern const char* const kBuild;  // "commit d250712, Release", "unknown commit, Debug"

}  // namespace vram::cli
