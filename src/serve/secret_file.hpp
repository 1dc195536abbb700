// Secrets that come from files: a token, a URL with a password in it. The command line, which
// everybody sees, names the file alone. Errors repeat nothing of what a file says. Any thread.
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>

namespace vram::serve {

// Printable ASCII without spaces, and some of it.
[[nodiscard]] bool is_one_word(std::string_view text);

// The file's content without the ends of line at its end. Refused: what is no plain file, may be
// read by others, belongs to another user than this one and root, or is not read within
// kSettingsTimeout.
[[nodiscard]] Result<std::string> read_secret(const std::string& path);

// As an option gives it: a URL, or @FILE, a file whose only line is one.
[[nodiscard]] Result<std::string> url_of(const std::string& given);

}  // namespace vram::serve
