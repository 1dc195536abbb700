// Rows of cells in aligned columns.
#pragma once

#include "show/draw/line.hpp"

#include <vector>

namespace vram::show {

enum class Align { kLeft, kRight };

// How a column shrinks if the table is too wide.
enum class Shrink { kNothing, kFront, kEnd, kCut };

struct Column {
  Align align = Align::kLeft;
  Shrink shrink = Shrink::kNothing;
  bool may_go = false;  // may be left out, from the last column on, if others would not fit
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // A row shorter than the columns ends there.
  void add_row(std::vector<Line> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Two spaces between columns. At most `columns` wide: columns go and shrink for it, and if that
  // is not enough, rows end early.
  [[nodiscard]] std::vector<Line> draw(int indent, int columns) const;

 private:
  [[nodiscard]] std::vector<int> widths(int available) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Line>> rows_;
};

}  // namespace vram::show
