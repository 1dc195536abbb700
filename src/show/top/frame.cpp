#include "show/top/frame.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace vram::show::top {
namespace {

constexpr int kFrame = 2;  // columns at each side: the line and a space

void draw_edge(Place place, int columns, std::string_view left, std::string_view right,
               Grid& grid) {
  const int last = place.column + columns - 1;
  for (int column = place.column; column <= last; ++column)
    grid.put({column, place.row}, column == place.column ? left : column == last ? right : "─");
}

void remove_last_glyph(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U)
    text.pop_back();
  if (!text.empty()) text.pop_back();
}

}  // namespace

void draw_framed(const FramedText& text, Grid& grid) {
  int width = display_width(text.title) + 4;
  for (const Line& line : text.lines) width = std::max(width, line.width());
  const Size whole = grid.size();
  const int columns = std::min(width + 2 * kFrame, whole.columns);
  const int shown = std::clamp(static_cast<int>(text.lines.size()), 0, std::max(whole.rows - 2, 0));
  const Place place = {(whole.columns - columns) / 2, std::max((whole.rows - shown - 2) / 2, 0)};
  grid.blank(place, {columns, shown + 2});
  draw_edge(place, columns, "┌", "┐", grid);
  grid.put({place.column + kFrame, place.row}, " " + text.title + " ", Style::kHeading,
           columns - 2 * kFrame);
  const int at = static_cast<int>(text.at.value_or(0));
  const int first = std::max(at + 1 - shown, 0);
  for (int i = 0; i < shown; ++i) {
    const Place row = {place.column, place.row + 1 + i};
    const int inner = columns - 2 * kFrame;
    grid.put(row, "│");
    grid.put({row.column + kFrame, row.row},
             text.lines[static_cast<size_t>(first) + static_cast<size_t>(i)].cut(inner), inner);
    grid.put({row.column + columns - 1, row.row}, "│");
    if (text.at && first + i == at) grid.invert({row.column + 1, row.row}, columns - 2);
  }
  draw_edge({place.column, place.row + shown + 1}, columns, "└", "┘", grid);
}

void draw_entry(int row, std::string_view lead, std::string_view entry, Grid& grid) {
  const Size size = grid.size();
  row = std::max(row, 0);
  grid.blank({0, row}, {size.columns, 1});
  const int column = grid.put({1, row}, lead, Style::kStrong);
  const int room = std::max(size.columns - column - 2, 1);
  const int cursor = grid.put({column, row}, shorten_front(printable(entry), room));
  grid.invert({cursor, row}, 1);
}

void edit_entry(const Event& event, std::string& entry) {
  constexpr size_t kMaxLength = 500;
  if (event.key == Key::kBackspace) remove_last_glyph(entry);
  if (event.key == Key::kText && entry.size() < kMaxLength) entry += event.text;
}

std::optional<int64_t> row_by_key(Key key, int64_t at, int rows) {
  constexpr int kWheelRows = 3;
  const int64_t page = std::max(rows - 1, 1);
  switch (key) {
    case Key::kUp:
      return at - 1;
    case Key::kDown:
      return at + 1;
    case Key::kPageUp:
      return at - page;
    case Key::kPageDown:
      return at + page;
    case Key::kWheelUp:
      return at - kWheelRows;
    case Key::kWheelDown:
      return at + kWheelRows;
    case Key::kHome:
      return 0;
    case Key::kEnd:
      return INT64_MAX;
    default:
      return std::nullopt;
  }
}

void draw_bar(int row, std::span<const BarItem> items, Grid& grid) {
  for (const BarItem& item : items) {
    const int next = grid.put({item.column, row}, item.key, Style::kStrong);
    grid.put({next, row}, item.word);
    grid.invert({next, row}, display_width(item.word));
  }
}

std::optional<Key> key_at(int column, std::span<const BarItem> items) {
  for (const BarItem& item : items) {
    const auto width = static_cast<int>(item.key.size()) + display_width(item.word);
    if (column >= item.column && column < item.column + width) return item.means;
  }
  return std::nullopt;
}

}  // namespace vram::show::top
