// The exit codes of all commands. 0: success.
#pragma once

namespace vram::cli {

inline constexpr int kFailed = 1;  // a gate or a finding
inline constexpr int kBadUsage = 2;
inline constexpr int kEnvironment = 3;  // no GPU, no permission, an address that is taken

}  // namespace vram::cli
