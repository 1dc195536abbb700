// Numbers as Python prints them.
#pragma once

#include <fmt/format.h>

#include <string>

namespace vram {

// "0.0", "1e-05".
[[nodiscard]] inline std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

}  // namespace vram
