#include "show/draw/bar.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

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

namespace {

std::vector<uint64_t> condense(std::span<const uint64_t> values, size_t columns) {
  if (values.size() <= columns) return {values.begin(), values.end()};
  std::vector<uint64_t> result(columns, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t& slot = result[i * columns / values.size()];
    slot = std::max(slot, values[i]);
  }
  return result;
}

}  // namespace

std::string sparkline(std::span<const uint64_t> values, int columns) {
  static constexpr std::array kLevels = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.empty() || columns <= 0) return "";
  const std::vector<uint64_t> shown = condense(values, static_cast<size_t>(columns));
  const auto [low, high] = std::ranges::minmax(shown);
  const uint64_t range = high - low;
  std::string out;
  for (const uint64_t value : shown) {
    const double level =
        range <= high / 100 ? 3 : static_cast<double>(value - low) / static_cast<double>(range) * 7;
    out += kLevels[static_cast<size_t>(std::lround(level))];
  }
  return out;
}

}  // namespace vram::show
