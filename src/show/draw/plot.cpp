#include "show/draw/plot.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace vram::show {
namespace {

// Texts at given columns of one row; a text that would touch an earlier one is not placed.
class LabelRow {
 public:
  bool place(int column, std::string_view text, Style style) {
    const int end = column + display_width(text);
    const bool taken = std::ranges::any_of(labels_, [&](const Label& other) {
      return column <= other.column + display_width(other.text) && end >= other.column;
    });
    if (taken || column < 0) return false;
    labels_.push_back({column, std::string(text), style});
    return true;
  }
  [[nodiscard]] Line draw(int indent) {
    std::ranges::sort(labels_, {}, &Label::column);
    Line line;
    for (const Label& label : labels_)
      line.pad_to(indent + label.column).add(label.text, label.style);
    return line;
  }
  [[nodiscard]] bool empty() const { return labels_.empty(); }

 private:
  struct Label {
    int column;
    std::string text;
    Style style;
  };
  std::vector<Label> labels_;
};

// Every mark keeps its pointer; its words go to the side where there is room, or to the row above.
std::vector<Line> draw_marks(const std::vector<PlotMark>& marks, int width) {
  std::array<LabelRow, 2> rows;  // nearest to the plot first
  for (const PlotMark& mark : marks) {
    const std::string right = "▼ " + mark.label;
    const std::string left = mark.label + " ▼";
    const int left_column = mark.column + 1 - display_width(left);
    for (LabelRow& row : rows) {
      const bool fits_right = mark.column + display_width(right) <= width;
      if (fits_right && row.place(mark.column, right, mark.style)) break;
      if (row.place(left_column, left, mark.style)) break;
    }
  }
  std::vector<Line> lines;
  for (size_t i = rows.size(); i-- > 0;) {
    if (!rows[i].empty()) lines.push_back(rows[i].draw(kPlotGutter));
  }
  return lines;
}

// How many eighths of the row's height `bytes` fills, 0 to 8; what is there at all shows in the
// lowest row.
int filled_eighths(uint64_t bytes, const ByteAxis& axis, int row) {
  const double rows = static_cast<double>(bytes) / static_cast<double>(axis.top_bytes) * axis.rows;
  const auto eighths = static_cast<int>(std::lround((rows - row) * 8));
  return std::clamp(row == 0 && bytes > 0 ? std::max(eighths, 1) : eighths, 0, 8);
}

void draw_cell(const PlotColumn& column, const ByteAxis& axis, int row, Line& line) {
  static constexpr std::array kBlocks = {"", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const int active = filled_eighths(column.active_bytes, axis, row);
  const int reserved = filled_eighths(column.reserved_bytes, axis, row);
  // A character has one shape: the solid part wins once it fills a quarter of the row, the shade
  // from a half.
  if (active >= 2 || (active > 0 && row == 0)) {
    line.add(kBlocks[static_cast<size_t>(active)], Style::kActive);
  } else if (reserved >= 4) {
    line.add("░", Style::kReserved);
  } else {
    line.add(" ");
  }
}

Line draw_row(const Plot& plot, const ByteAxis& axis, int row) {
  Line line;
  const bool at_tick = (row + 1) % axis.rows_per_tick == 0;
  const std::string label =
      at_tick ? axis.ticks[static_cast<size_t>((row + 1) / axis.rows_per_tick - 1)].label : "";
  line.pad_to(kPlotGutter - 2 - display_width(label))
      .add(label)
      .add(at_tick ? " ┤" : " │", Style::kFaint);
  for (const PlotColumn& column : plot.columns) draw_cell(column, axis, row, line);
  return line;
}

void draw_x_axis(const Plot& plot, std::vector<Line>& lines) {
  Line axis;
  axis.pad_to(kPlotGutter - 3).add("0").add(" └", Style::kFaint);
  LabelRow labels;
  std::vector<bool> ticked(plot.columns.size(), false);
  for (const PlotMark& tick : plot.x_ticks) {
    const int width = display_width(tick.label);
    const int room = static_cast<int>(plot.columns.size()) - width;
    if (!labels.place(
            std::clamp(tick.column - (tick.column == 0 ? 0 : width / 2), 0, std::max(room, 0)),
            tick.label, tick.style))
      continue;
    if (tick.column < static_cast<int>(ticked.size()))
      ticked[static_cast<size_t>(tick.column)] = true;
  }
  for (const bool tick : ticked) axis.add(tick ? "┬" : "─", Style::kFaint);
  lines.push_back(std::move(axis));
  lines.push_back(labels.draw(kPlotGutter));
}

// Nothing where no step has room for its number.
void add_steps(const Plot& plot, std::vector<Line>& lines) {
  LabelRow row;
  for (const PlotMark& step : plot.steps) {
    const int end = step.column + 1 + display_width(step.label);
    if (end > static_cast<int>(plot.columns.size())) continue;
    row.place(step.column, "╵" + step.label, step.style);
  }
  if (row.empty()) return;
  Line line(plot.steps_title, Style::kFaint);
  const int title_width = line.width();
  lines.push_back(line.add(row.draw(kPlotGutter - title_width)));
}

}  // namespace

std::vector<Line> draw_plot(const Plot& plot) {
  uint64_t largest = plot.axis_bytes;
  for (const PlotColumn& column : plot.columns) {
    largest = std::max({largest, column.active_bytes, column.reserved_bytes});
  }
  const ByteAxis axis = byte_axis(largest, plot.max_rows);
  std::vector<Line> lines = draw_marks(plot.marks, static_cast<int>(plot.columns.size()));
  for (int row = axis.rows - 1; row >= 0; --row) lines.push_back(draw_row(plot, axis, row));
  draw_x_axis(plot, lines);
  add_steps(plot, lines);
  return lines;
}

}  // namespace vram::show
