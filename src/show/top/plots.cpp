#include "show/top/plots.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "show/device_words.hpp"
#include "show/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace vram::show::top {
namespace {

constexpr int kMinWidth = 28;
constexpr int kMinHeight = 5;  // rows: a title, three of the plot, the axis
constexpr int kGutter = 6;     // columns for the axis at the left
constexpr int kPlotGap = 2;
constexpr uint64_t kSecondNs = 1'000'000'000;

struct Box {
  Place place;
  Size size;
};

std::string_view block_of(float share, int row, int rows) {
  static constexpr std::array<std::string_view, 9> kBlocks = {" ", "▁", "▂", "▃", "▄",
                                                              "▅", "▆", "▇", "█"};
  const float filled = (share * static_cast<float>(rows) - static_cast<float>(row)) * 8;
  const auto eighths = static_cast<int>(std::lround(filled));
  const bool shows_little = row == 0 && share > 0;
  return kBlocks[static_cast<size_t>(std::clamp(eighths, shows_little ? 1 : 0, 8))];
}

int row_of(float share, int rows) {
  return std::clamp(static_cast<int>(share * static_cast<float>(rows)), 0, rows - 1);
}

std::string age_text(uint64_t age_ns) {
  const uint64_t rounded = age_ns < 10 * kSecondNs ? age_ns / (kSecondNs / 10) * (kSecondNs / 10)
                                                   : age_ns / kSecondNs * kSecondNs;
  return "-" + format_duration_ns(static_cast<int64_t>(rounded));
}

class DevicePlot {
 public:
  DevicePlot(const watch::Device& device, const std::deque<HistoryPoint>& points, PlotKind kind,
             Box box, Grid& grid)
      : device_(device), points_(points), kind_(kind), box_(box), grid_(grid) {}

  void draw(uint64_t now_ns) {
    draw_title();
    draw_frame(now_ns);
    const size_t first = points_.size() - shown();
    for (size_t i = first; i < points_.size(); ++i)
      draw_point(points_[i], columns() - static_cast<int>(points_.size() - i));
  }

 private:
  [[nodiscard]] int columns() const { return box_.size.columns - kGutter; }
  [[nodiscard]] int rows() const { return box_.size.rows - 2; }
  [[nodiscard]] size_t shown() const {
    return std::min(points_.size(), static_cast<size_t>(std::max(columns(), 0)));
  }
  [[nodiscard]] Place at(int column, int row) const {  // rows count from the axis up
    return {box_.place.column + kGutter + column, box_.place.row + rows() - row};
  }
  void draw_title() {
    const gpu::DeviceSample& sample = device_.sample;
    const bool is_memory = kind_ == PlotKind::kMemory;
    Line line(fmt::format("GPU {} ", device_.identity.index), Style::kStrong);
    line.add("█ ", Style::kActive);
    line.add(is_memory ? bytes_text(sample.memory.used_bytes) : power_text(device_, false));
    line.add(" • ", Style::kWarning);
    line.add(is_memory ? "busy " + percent_text(sample.busy_percent)
                       : celsius_text(sample.celsius));
    grid_.put(box_.place, line, box_.size.columns);
  }
  void put_label(int row, std::string_view text) {
    const int column = box_.place.column + kGutter - 1 - display_width(text);
    grid_.put({column, at(0, row).row}, text, Style::kFaint);
  }
  // What stands for the whole: all of the memory or of the power; and 100 C.
  void draw_frame(uint64_t now_ns) {
    const int axis = box_.place.column + kGutter - 1;
    for (int row = 0; row < rows(); ++row) grid_.put({axis, at(0, row).row}, "│", Style::kFaint);
    put_label(rows() - 1, "100%");
    if (rows() >= 6) put_label(rows() / 2 - 1, "50%");
    const int below = box_.place.row + rows() + 1;
    grid_.put({axis, below}, "└", Style::kFaint);
    for (int column = 0; column < columns(); ++column)
      grid_.put({axis + 1 + column, below}, "─", Style::kFaint);
    if (shown() < 2) return;
    const std::string oldest = age_text(now_ns - points_[points_.size() - shown()].time_ns);
    const int left = axis + 1 + columns() - static_cast<int>(shown());
    const int right = axis + 1 + columns() - 3;
    if (left + display_width(oldest) < right) grid_.put({left, below}, oldest, Style::kFaint);
    grid_.put({right, below}, "now", Style::kFaint);
  }
  void draw_point(const HistoryPoint& point, int column) {
    const bool is_memory = kind_ == PlotKind::kMemory;
    const auto& area = is_memory ? point.memory : point.power;
    const auto& dot = is_memory ? point.busy : point.heat;
    for (int row = 0; area && row < rows(); ++row)
      grid_.put(at(column, row), block_of(*area, row, rows()), Style::kActive);
    if (dot) grid_.put(at(column, row_of(*dot, rows())), "•", Style::kWarning);
  }

  const watch::Device& device_;
  const std::deque<HistoryPoint>& points_;
  PlotKind kind_;
  Box box_;
  Grid& grid_;
};

// As few rows of plots as show all devices, or as many as there is room for.
int rows_of_plots(int count, int per_row, Band band) {
  int rows = 1;
  while (rows * per_row < count && (rows + 1) * kMinHeight <= band.rows) ++rows;
  return rows;
}

}  // namespace

void draw_plots(const watch::Snapshot& snapshot, const History& history, const TopState& state,
                uint64_t now_ns, Band band, Grid& grid) {
  std::vector<const watch::Device*> devices;
  for (const watch::Device& device : snapshot.devices) {
    if (!state.device || device.identity.index == *state.device) devices.push_back(&device);
  }
  const int count = static_cast<int>(devices.size());
  if (count == 0 || band.rows < kMinHeight) return;
  const int most = std::max(grid.size().columns / kMinWidth, 1);
  const int rows = rows_of_plots(count, most, band);
  const int per_row = std::min((count + rows - 1) / rows, most);
  const Size size = {(grid.size().columns + kPlotGap) / per_row - kPlotGap, band.rows / rows};
  for (int i = 0; i < std::min(count, rows * per_row); ++i) {
    const watch::Device& device = *devices[static_cast<size_t>(i)];
    const Place place = {i % per_row * (size.columns + kPlotGap),
                         band.row + i / per_row * size.rows};
    DevicePlot(device, history.of(device), state.plot, {place, size}, grid).draw(now_ns);
  }
}

}  // namespace vram::show::top
