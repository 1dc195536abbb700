// ASCII replacements of all glyphs, for terminals without UTF-8. Layout uses Unicode; this is the
// last step and keeps all columns.
#pragma once

#include <string>
#include <string_view>

namespace vram::show {

// ASCII of the same width: drawing characters and punctuation by their likeness, letters of other
// scripts as '?'.
[[nodiscard]] std::string to_ascii(std::string_view utf8);

}  // namespace vram::show
