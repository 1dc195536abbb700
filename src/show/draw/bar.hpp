// Bars of eighths of a character, one line high.
#pragma once

#include "show/draw/line.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace vram::show {

// `share` of `columns`, from the left, to an eighth of a column. At least a sliver when the share
// is above 0.
[[nodiscard]] std::string share_bar(double share, int columns);

struct BarPart {
  uint64_t bytes = 0;
  std::string glyph;  // one column wide
  Style style = Style::kPlain;
};

// Parts of a whole side by side, in columns that always add up to `columns`; parts too small for
// one column are left out.
[[nodiscard]] Line stacked_bar(std::span<const BarPart> parts, int columns);

}  // namespace vram::show
