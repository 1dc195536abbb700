// A sparkline: the shape of a few numbers in one line of text.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace vram::show {

// One character a value, or the largest of neighbouring values where there are more than `columns`.
// The lowest value is the lowest block; numbers that differ by less than 1 % are drawn flat, since
// their shape is noise.
[[nodiscard]] std::string sparkline(std::span<const uint64_t> values, int columns);

}  // namespace vram::show
