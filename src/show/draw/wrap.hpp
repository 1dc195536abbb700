// Breaking running text into lines of a width.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vram::show {

// Greedy, at spaces; a word wider than a line is split. A newline in the text always breaks. Never
// returns an empty list: empty text is one empty line.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, int columns);

}  // namespace vram::show
