#include "cli/repaint.hpp"

#include "base/text.hpp"

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

// At most `columns` of a line, with all its escape codes. A wider one would be wrapped, and take
// more lines of the terminal than are counted here.
std::string cut(std::string_view line, int columns) {
  std::string out;
  int used = 0;
  while (!line.empty()) {
    const bool is_code = line.front() == '\x1b';
    size_t end = is_code ? std::min(line.find('m'), line.size() - 1) + 1 : 1;
    while (!is_code && end < line.size() &&
           (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U)
      ++end;
    const std::string_view piece = line.substr(0, end);
    if (!is_code) used += display_width(piece);
    if (is_code || used <= columns) out += piece;
    line.remove_prefix(end);
  }
  return out;
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
  for (size_t i = 0; i < shown; ++i)
    out += fmt::format("{}{}\n", cut(lines[i], columns), kWipeRestOfLine);
  if (shown < lines.size())
    out += fmt::format("({} more lines){}\n", lines.size() - shown, kWipeRestOfLine);
  lines_ = static_cast<int>(std::min(lines.size(), room));
  return out += kWipeBelow;
}

}  // namespace vram::cli
