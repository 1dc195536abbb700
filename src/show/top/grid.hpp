// Grid: a screen in memory: rows of cells, each with a glyph and a style. vram top draws on it,
// tests read it as text, and a terminal shows it (terminal/).
//
// Nothing is written outside it: text that does not fit is truncated, a truncated wide character is
// removed, and control characters become U+FFFD. A plain value; allocates when it is created.
#pragma once

#include "show/draw/line.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show::top {

struct Size {
  int columns = 80;
  int rows = 24;
  bool operator==(const Size&) const = default;
};

struct Place {
  int column = 0;
  int row = 0;
};

struct Cell {
  std::array<char, 8> utf8 = {' '};  // the glyph and marks that combine with it; ends with a 0
  uint8_t columns = 1;               // 2: it takes the next cell, too; 0: taken by the one before
  Style style = Style::kPlain;
  bool is_inverted = false;
  bool operator==(const Cell&) const = default;
};

class Grid {
 public:
  explicit Grid(Size size);

  [[nodiscard]] Size size() const { return size_; }
  // Of a place inside.
  [[nodiscard]] const Cell& at(Place place) const { return cells_[index_of(place)]; }

  // At most `columns` columns of the text; the column behind it is returned.
  int put(Place place, std::string_view text, Style style = Style::kPlain,
          int columns = std::numeric_limits<int>::max());
  int put(Place place, const Line& line, int columns = std::numeric_limits<int>::max());
  // Light on dark for dark on light.
  void invert(Place place, int columns);
  void blank(Place place, Size size);
  // Each glyph by its likeness, for terminals that are not UTF-8.
  void make_ascii();

  [[nodiscard]] Line line(int row) const;
  // The rows without trailing blanks.
  [[nodiscard]] std::string text(bool colour = false) const;

 private:
  [[nodiscard]] size_t index_of(Place place) const;
  [[nodiscard]] bool has(Place place) const;
  void write(Place place, std::string_view glyph, int columns, Style style);
  void combine(Place place, std::string_view mark);
  void tear(Place place);

  Size size_;
  std::vector<Cell> cells_;
};

}  // namespace vram::show::top
