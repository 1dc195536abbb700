#include "show/top/grid.hpp"

#include "base/result.hpp"
#include "base/text.hpp"
#include "show/draw/line.hpp"

#include <algorithm>
#include <cstring>

namespace vram::show::top {
namespace {

constexpr int kMaxColumns = 1'000;
constexpr int kMaxRows = 500;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::string_view glyph_of(const Cell& cell) {
  return {cell.utf8.data(), strnlen(cell.utf8.data(), cell.utf8.size())};
}

}  // namespace

Grid::Grid(Size size)
    : size_{std::clamp(size.columns, 0, kMaxColumns), std::clamp(size.rows, 0, kMaxRows)},
      cells_(static_cast<size_t>(size_.columns) * static_cast<size_t>(size_.rows)) {}

bool Grid::has(Place place) const {
  return place.column >= 0 && place.column < size_.columns && place.row >= 0 &&
         place.row < size_.rows;
}

size_t Grid::index_of(Place place) const {
  VRAM_CHECK(has(place));
  return static_cast<size_t>(place.row) * static_cast<size_t>(size_.columns) +
         static_cast<size_t>(place.column);
}

// Whatever was there and reaches into a neighbouring cell goes.
void Grid::tear(Place place) {
  const Cell& cell = cells_[index_of(place)];
  if (cell.columns == 0) cells_[index_of(place) - 1] = {};
  if (cell.columns == 2) cells_[index_of(place) + 1] = {};
  cells_[index_of(place)] = {};
}

void Grid::write(Place place, std::string_view glyph, int columns, Style style) {
  tear(place);
  Cell& cell = cells_[index_of(place)];
  cell.utf8 = {};
  glyph.copy(cell.utf8.data(), cell.utf8.size() - 1);
  cell.columns = static_cast<uint8_t>(columns);
  cell.style = style;
  if (columns < 2) return;
  const Place next = {place.column + 1, place.row};
  tear(next);
  Cell& taken = cells_[index_of(next)];
  taken.utf8 = {};
  taken.columns = 0;
  taken.style = style;
}

// Marks beyond the room of a cell are left out.
void Grid::combine(Place place, std::string_view mark) {
  Cell& cell = cells_[index_of(place)];
  const size_t length = glyph_of(cell).size();
  if (length + mark.size() < cell.utf8.size()) mark.copy(cell.utf8.data() + length, mark.size());
}

int Grid::put(Place place, std::string_view text, Style style, int columns) {
  const int end = columns > size_.columns - place.column ? size_.columns : place.column + columns;
  if (place.row < 0 || place.row >= size_.rows) return place.column;
  int written = -1;  // the cell that a mark would combine with
  while (!text.empty()) {
    const Glyph glyph = first_glyph(text);
    const int next = place.column + (glyph.is_harmless ? glyph.columns : 1);
    if (next > end) break;
    if (place.column >= 0 && next > place.column) {
      write(place, glyph.is_harmless ? text.substr(0, glyph.length) : kReplacement,
            next - place.column, style);
      written = place.column;
    } else if (next == place.column && written >= 0) {
      combine({written, place.row}, text.substr(0, glyph.length));
    }
    place.column = next;
    text.remove_prefix(glyph.length);
  }
  return place.column;
}

int Grid::put(Place place, const Line& line, int columns) {
  const int begin = place.column;
  for (const Line::Span& span : line.spans()) {
    const int left = columns - (place.column - begin);
    if (left <= 0) break;
    place.column = put(place, span.text, span.style, left);
  }
  return place.column;
}

void Grid::invert(Place place, int columns) {
  for (; columns > 0; --columns, ++place.column) {
    if (has(place)) cells_[index_of(place)].is_inverted = true;
  }
}

void Grid::blank(Place place, Size size) {
  for (int row = place.row; row < place.row + size.rows; ++row) {
    for (int column = place.column; column < place.column + size.columns; ++column) {
      if (has({column, row})) tear({column, row});
    }
  }
}

void Grid::make_ascii() {
  for (size_t i = 0; i < cells_.size(); ++i) {
    Cell& cell = cells_[i];
    if (cell.columns == 0) continue;
    if (static_cast<unsigned char>(cell.utf8[0]) < 0x80) {
      cell.utf8 = {cell.utf8[0]};  // without marks
      continue;
    }
    const std::string ascii = to_ascii(glyph_of(cell));
    // A wide character of a translation, in whose codeset it will be shown.
    if (!ascii.empty() && static_cast<unsigned char>(ascii.front()) >= 0x80) {
      cell.utf8 = {};
      ascii.copy(cell.utf8.data(), cell.utf8.size() - 1);
      continue;
    }
    for (size_t column = 0; column < cell.columns; ++column) {
      Cell& part = cells_[i + column];
      part.utf8 = {column < ascii.size() ? ascii[column] : '?'};
    }
    if (cell.columns == 2) cells_[i + 1].columns = 1;
    cell.columns = 1;
  }
}

Line Grid::line(int row) const {
  Line line;
  for (int column = 0; column < size_.columns; ++column) {
    const Cell& cell = at({column, row});
    if (cell.columns > 0) line.add(glyph_of(cell), cell.style);
  }
  return line;
}

std::string Grid::text(bool colour) const {
  std::string text;
  for (int row = 0; row < size_.rows; ++row) text += line(row).text(colour) + '\n';
  return text;
}

}  // namespace vram::show::top
