// What the program's exit codes mean, of every command. 0: done.
#pragma once

namespace vram::cli {

inline constexpr int kFailed = 1;  // a gate or a finding
inline constexpr int kBadUsage = 2;
inline constexpr int kEnvironment = 3;  // no GPU, no permission, an address that is taken

}  // namespace vram::cli
