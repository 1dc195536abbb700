// What full-screen programs (vram top, vram report --interactive) share: a text in a frame over the
// screen, a line in which a text is typed, and the bar of keys at the bottom. Pure functions.
#pragma once

#include "show/draw/line.hpp"
#include "show/top/grid.hpp"
#include "show/top/state.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show::top {

struct FramedText {
  std::string title;
  std::vector<Line> lines;
  std::optional<size_t> at;  // the line that is selected, which is always shown
};

// In the middle of the screen, as large as it needs to be.
void draw_framed(const FramedText& text, Grid& grid);

// A line with a cursor, in this row. The end of a long text is what one types at.
void draw_entry(int row, std::string_view lead, std::string_view entry, Grid& grid);
// A key that changes the text: a character, Backspace. Others do nothing.
void edit_entry(const Event& event, std::string& entry);

// The row that a key or a turn of the wheel selects in a list of which `rows` are shown, when row
// `at` is selected. It may lie before the first or after the last. Nothing for other keys.
[[nodiscard]] std::optional<int64_t> row_by_key(Key key, int64_t at, int rows);

struct BarItem {
  int column = 0;
  std::string_view key;   // "F1"
  std::string_view word;  // "Help  "
  Key means = Key::kF1;
};

void draw_bar(int row, std::span<const BarItem> items, Grid& grid);
// The key of the item at this column.
[[nodiscard]] std::optional<Key> key_at(int column, std::span<const BarItem> items);

}  // namespace vram::show::top
