#include "show/draw/bar.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace vram::show {

std::string share_bar(double share, int columns) {
  static constexpr std::array kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clamped = std::clamp(share, 0.0, 1.0);
  auto eighths = static_cast<size_t>(std::lround(clamped * 8 * columns));
  if (eighths == 0 && clamped > 0) eighths = 1;
  std::string bar;
  for (size_t i = 0; i < eighths / 8; ++i) bar += "█";
  return bar + kEighths[eighths % 8];
}

Line stacked_bar(std::span<const BarPart> parts, int columns) {
  double whole = 0;
  for (const BarPart& part : parts) whole += static_cast<double>(part.bytes);
  Line bar;
  double sum = 0;
  for (const BarPart& part : parts) {
    sum += static_cast<double>(part.bytes);
    const int end = whole > 0 ? static_cast<int>(std::lround(sum / whole * columns)) : 0;
    while (bar.width() < end) bar.add(part.glyph, part.style);
  }
  return bar;
}

}  // namespace vram::show
