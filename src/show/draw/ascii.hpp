// A stand-in for every glyph we draw, for terminals that are not UTF-8. Layout is done in Unicode;
// this comes last and keeps every column where it is.
#pragma once

#include <string>
#include <string_view>

namespace vram::show {

// ASCII of the same width: drawing characters and punctuation by their likeness, letters of other
// scripts as '?'.
[[nodiscard]] std::string to_ascii(std::string_view utf8);

}  // namespace vram::show
