// Round values along the axes of pictures. Pure.
#pragma once

#include "pictures/columns.hpp"

#include <string>
#include <vector>

namespace vram::pictures {

struct AxisTick {
  double value = 0;
  std::string label;  // with its unit
};

// Of the window, at most `max_ticks` (at least 2) of them. Labels have as many digits as neighbours
// need to differ.
[[nodiscard]] std::vector<AxisTick> axis_ticks(const Window& window, int max_ticks);

// Of bytes, from above 0 up to the largest value, at most `max_ticks` of them.
[[nodiscard]] std::vector<AxisTick> byte_ticks(double largest, int max_ticks);

}  // namespace vram::pictures
