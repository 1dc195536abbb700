// TextOptions: the shape of a text. Page: the lines of one being drawn, and how wide they may be.
// Sections append to it from top to bottom; finish() makes terminal text of it. Table: rows of
// cells in aligned columns, as lines. Not thread-safe.
#pragma once

#include "show/draw/line.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show {

// The widest page of prose; tables of a live machine may be wider.
inline constexpr int kMaxPageWidth = 120;

inline constexpr size_t kDefaultRows = 8;  // of tables

struct TextOptions {
  int columns = 100;  // 60 to 120 are used, whatever the terminal has
  bool colour = false;
  bool unicode = true;             // else every glyph has an ASCII replacement
  bool bars = true;                // share bars and sparklines
  std::optional<size_t> top = {};  // rows of tables, 0 = all; none: 8, of a short report fewer
  size_t max_lines = 0;            // of a report, which leaves out details above that; 0: no limit
};

class Page {
 public:
  explicit Page(const TextOptions& options, int widest = kMaxPageWidth);

  [[nodiscard]] int columns() const { return columns_; }
  [[nodiscard]] const TextOptions& options() const { return options_; }

  // Adds a blank line and a section's name with its description, which is continued below if it is
  // long.
  void heading(std::string_view title, std::string_view about);
  void add(Line line) { lines_.push_back(std::move(line)); }
  void add(std::vector<Line> lines);
  // Adds wrapped text; `lead` precedes its first line and indents the others.
  void paragraph(const Line& lead, std::string_view text, Style style = Style::kPlain);
  void blank() { lines_.emplace_back(); }
  // Something that a short page does without: "3 findings".
  void leave_out(const std::string& what);
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }
  [[nodiscard]] size_t line_count() const { return lines_.size(); }

  [[nodiscard]] std::string finish() const;

 private:
  TextOptions options_;
  int columns_;
  std::vector<Line> lines_;
  std::vector<std::string> left_out_;
};

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
