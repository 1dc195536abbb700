// On what kind of file system a history may lie. SQLite's log is shared memory, which programs on
// several machines do not have, and there two servers would write one file. Pure but for the check.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vram::history {

// What a file system is called that machines share, by its number (statfs(2)).
[[nodiscard]] std::optional<std::string_view> network_file_system(uint32_t magic);

// kUnsupported: other machines may write there, too. What can't be looked at is fine: opening it
// says why not.
[[nodiscard]] Result<> check_is_local(const std::string& path);

}  // namespace vram::history
