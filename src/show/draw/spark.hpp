// A sparkline: the shape of a few numbers in one line of text.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace vram::show {

// One character for each value, or for the maximum of adjacent values if there are more than
// `columns`. The smallest value is the lowest block; values within 1 % are drawn flat, since their
// differences are noise.
[[nodiscard]] std::string sparkline(std::span<const uint64_t> values, int columns);

}  // namespace vram::show
