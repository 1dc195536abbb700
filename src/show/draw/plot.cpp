#include "show/draw/plot.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

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

namespace {

struct Unit {
  std::string_view name;
  double size;
};

std::string label_of(double value, const Unit& unit) {
  return fmt::format("{:.6g} {}", value / unit.size, unit.name);
}

Unit byte_unit(uint64_t largest_bytes) {
  static constexpr std::array kUnits = {Unit{"PiB", 0x1p50}, Unit{"TiB", 0x1p40},
                                        Unit{"GiB", 0x1p30}, Unit{"MiB", 0x1p20},
                                        Unit{"KiB", 0x1p10}};
  for (const Unit& unit : kUnits) {
    if (static_cast<double>(largest_bytes) >= unit.size) return unit;
  }
  return {"B", 1};
}

// The smallest round number not below `value`.
double round_up(double value, std::span<const double> mantissas) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  for (const double mantissa : mantissas) {
    if (mantissa * decade >= value * (1 - 1e-9)) return mantissa * decade;
  }
  return 10 * decade;
}

std::vector<Tick> ticks_up_to(double end, double step, const Unit& unit) {
  std::vector<Tick> ticks;
  for (double value = 0; value <= end * (1 + 1e-9); value += step) {
    ticks.push_back({static_cast<uint64_t>(std::llround(value)), label_of(value, unit)});
  }
  return ticks;
}

Unit time_unit(double step_ns) {
  static constexpr std::array kUnits = {Unit{"h", 3600e9}, Unit{"min", 60e9}, Unit{"s", 1e9},
                                        Unit{"ms", 1e6}, Unit{"us", 1e3}};
  // Half a second is a better label than 500 ms on an axis of seconds.
  for (const Unit& unit : kUnits) {
    if (step_ns >= unit.size * (unit.size == 1e9 ? 0.1 : 1)) return unit;
  }
  return {"ns", 1};
}

// Above half a minute the round steps are those of a clock.
double round_time_step(double step_ns) {
  static constexpr std::array kDecimal = {1.0, 2.0, 5.0, 10.0};
  static constexpr std::array kClockSeconds = {30,   60,   120,  300,   600,   900,
                                               1800, 3600, 7200, 21600, 43200, 86400};
  if (step_ns <= 20e9) return round_up(step_ns, kDecimal);
  for (const int seconds : kClockSeconds) {
    if (seconds * 1e9 >= step_ns) return seconds * 1e9;
  }
  return std::ceil(step_ns / 86400e9) * 86400e9;
}

}  // namespace

ByteAxis byte_axis(uint64_t largest_bytes, int max_rows) {
  static constexpr std::array kMantissas = {1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0};
  const uint64_t largest = std::max<uint64_t>(largest_bytes, 1);
  const Unit unit = byte_unit(largest);
  const double in_units = static_cast<double>(largest) / unit.size;
  ByteAxis best;
  double best_cost = 1e9;
  for (int count = 2; count <= 5; ++count) {
    const int rows_per_tick = std::max(max_rows, 4) / count;
    if (rows_per_tick == 0) continue;
    const double step = round_up(in_units / count, kMantissas);
    const double unused_rows = max_rows - rows_per_tick * count;
    const double cost = step * count / in_units - 1 + 0.03 * unused_rows;
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = {
        static_cast<uint64_t>(step * count * unit.size), rows_per_tick * count, rows_per_tick, {}};
    for (int i = 1; i <= count; ++i) {
      const double value = step * i * unit.size;
      best.ticks.push_back({static_cast<uint64_t>(value), label_of(value, unit)});
    }
  }
  return best;
}

std::vector<Tick> time_ticks(uint64_t end_ns, int max_ticks) {
  if (end_ns == 0) return {{0, "0 s"}};
  const auto end = static_cast<double>(end_ns);
  const double step = round_time_step(end / std::max(max_ticks - 1, 1));
  return ticks_up_to(end, step, time_unit(step));
}

std::vector<Tick> count_ticks(uint64_t end, int max_ticks) {
  static constexpr std::array kDecimal = {1.0, 2.0, 5.0, 10.0};
  const double step = std::max(
      1.0, round_up(static_cast<double>(end) / std::max(max_ticks - 1, 1) + 1e-9, kDecimal));
  std::vector<Tick> ticks;
  for (double value = 0; value <= static_cast<double>(end); value += step) {
    const auto count = static_cast<uint64_t>(std::llround(value));
    ticks.push_back({count, format_count(count)});
  }
  return ticks;
}

namespace {

constexpr int kColumnsPerTick = 12;

}  // namespace

int TimeScale::column_of(int64_t time_ns) const {
  const double place = static_cast<double>(time_ns) / static_cast<double>(end_ns) * columns;
  return static_cast<int>(std::clamp(place, 0.0, static_cast<double>(columns - 1)));
}

std::vector<PlotColumn> gather(std::span<const TimelinePoint> points, const TimeScale& scale) {
  std::vector<PlotColumn> columns(static_cast<size_t>(scale.columns));
  for (size_t i = 0; i < points.size(); ++i) {
    const int first = scale.column_of(points[i].time_ns);
    const bool is_last = i + 1 == points.size();
    const int end = is_last ? scale.columns : scale.column_of(points[i + 1].time_ns);
    for (int column = first; column < std::max(end, first + 1); ++column) {
      PlotColumn& target = columns[static_cast<size_t>(column)];
      target.active_bytes = std::max(target.active_bytes, points[i].active_bytes);
      target.reserved_bytes = std::max(target.reserved_bytes, points[i].reserved_bytes);
    }
  }
  return columns;
}

std::vector<PlotMark> axis_ticks(bool has_time, const TimeScale& scale) {
  const auto end = static_cast<uint64_t>(scale.end_ns);
  const int most = scale.columns / kColumnsPerTick;
  std::vector<PlotMark> marks;
  for (const Tick& tick : has_time ? time_ticks(end, most) : count_ticks(end, most)) {
    marks.push_back({scale.column_of(static_cast<int64_t>(tick.value)), tick.label, Style::kFaint});
  }
  return marks;
}

}  // namespace vram::show
