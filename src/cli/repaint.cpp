#include "cli/repaint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace vram::cli {
namespace {

constexpr std::string_view kHomeAndWipe = "\x1b[H\x1b[2J";
constexpr std::string_view kWipeRestOfLine = "\x1b[K";
constexpr std::string_view kWipeBelow = "\x1b[J";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

std::string Repaint::next(std::string_view text, int rows, int columns) {
  const bool resized = std::exchange(rows_, rows) != rows;
  const bool reshaped = std::exchange(columns_, columns) != columns || resized;
  std::string out;
  if (lines_ > 0) out = reshaped ? std::string(kHomeAndWipe) : fmt::format("\x1b[{}A\r", lines_);
  const std::vector<std::string_view> lines = lines_of(text);
  const auto room = static_cast<size_t>(std::max(rows - 1, 1));  // the cursor waits in the last
  const size_t shown = lines.size() > room ? room - 1 : lines.size();
  for (size_t i = 0; i < shown; ++i) out += fmt::format("{}{}\n", lines[i], kWipeRestOfLine);
  if (shown < lines.size())
    out += fmt::format("({} more lines){}\n", lines.size() - shown, kWipeRestOfLine);
  lines_ = static_cast<int>(std::min(lines.size(), room));
  return out += kWipeBelow;
}

}  // namespace vram::cli
