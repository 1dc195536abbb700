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

// A sparkline: the shape of a few numbers in one line of text.

// One character for each value, or for the maximum of adjacent values if there are more than
// `columns`. The smallest value is the lowest block; values within 1 % are drawn flat, since their
// differences are noise.
[[nodiscard]] std::string sparkline(std::span<const uint64_t> values, int columns);

}  // namespace vram::show
