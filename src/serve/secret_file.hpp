// Secrets in files: a token, a URL with a password. The command line, which is public, contains
// only the file's name. Errors never repeat a file's contents. May be called from any thread.
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>

namespace vram::serve {

// Printable ASCII without spaces, and some of it.
[[nodiscard]] bool is_one_word(std::string_view text);

// Returns the file's contents without trailing newlines. Refuses a file that is not regular, is
// readable by others, belongs to a user other than this one and root, or cannot be read within
// kSettingsTimeout.
[[nodiscard]] Result<std::string> read_secret(const std::string& path);

// As an option gives it: a URL, or @FILE, a file whose only line is one.
[[nodiscard]] Result<std::string> url_of(const std::string& given);

}  // namespace vram::serve
