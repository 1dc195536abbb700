#include "show/top/devices.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "show/draw/page.hpp"
#include "show/live/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace vram::show::top {
namespace {

using watch::Device;

constexpr int kFreeFrom = 100;  // columns of a screen that has room for this, too
constexpr int kLimitFrom = 110;
constexpr int kUnattributedFrom = 118;
constexpr int kClocksFrom = 130;
constexpr int kRatesFrom = 160;
constexpr int kIndent = 4;  // of the lines below a device
constexpr int kMinBarWidth = 8;
constexpr int kMaxBarWidth = 40;
constexpr int kUnbounded = 1'000;
constexpr size_t kClock = std::string_view("2026-11-22 ").size();

std::string rate_text(const std::optional<uint64_t>& bytes) {
  return bytes ? format_bytes(*bytes) + "/s" : std::string(kUnknown);
}

std::string both_rates(const Device& device) {
  if (!device.pcie_sent_bytes_per_second && !device.pcie_received_bytes_per_second)
    return std::string(kUnknown);
  return fmt::format("{} {}", rate_text(device.pcie_received_bytes_per_second),
                     rate_text(device.pcie_sent_bytes_per_second));
}

std::string clocks_text(const gpu::DeviceSample& sample) {
  if (!sample.core_mhz) return std::string(kUnknown);
  return mhz_text(sample.core_mhz);
}

class DeviceTable {
 public:
  DeviceTable(const watch::Snapshot& snapshot, const History& history, std::optional<uint32_t> only,
              Size size)
      : history_(history), columns_(size.columns) {
    for (const Device& device : snapshot.devices) {
      if (!only || device.identity.index == *only) devices_.push_back(&device);
    }
    const auto knows_nvlink = [&](const Device* device) {
      return history.nvlink_bytes_per_second(*device).has_value();
    };
    has_nvlink_ = columns_ >= kRatesFrom && std::ranges::any_of(devices_, knows_nvlink);
    const auto is_worth_showing = [](const Device* device) {
      return !unattributed_text(*device).empty();
    };
    has_unattributed_ =
        columns_ >= kUnattributedFrom && std::ranges::any_of(devices_, is_worth_showing);
  }
  [[nodiscard]] std::vector<DeviceLine> draw() const {
    if (devices_.empty()) return {};
    int natural = 0;
    for (const Line& line : lines(0, kUnbounded)) natural = std::max(natural, line.width());
    const int bar = std::clamp(columns_ - natural - 2, kMinBarWidth, kMaxBarWidth);
    const std::vector<Line> table = lines(bar, columns_);
    std::vector<DeviceLine> result = {{table.front(), std::nullopt}};
    auto next = table.begin() + 1;
    for (const Device* device : devices_) {
      result.push_back({*next++, device->identity.index});
      for (size_t i = 0; i < device->health.mig_instances.size(); ++i)
        result.push_back({*next++, device->identity.index, DeviceLineKind::kInstance});
      add_remarks(*device, result);
    }
    return result;
  }

 private:
  [[nodiscard]] std::vector<Line> lines(int bar, int columns) const {
    constexpr Column kRight = {Align::kRight, Shrink::kNothing};
    std::vector<Column> shapes = {{}, {Align::kLeft, Shrink::kCut}, {}};
    shapes.resize(16, kRight);
    Table table(std::move(shapes));
    std::vector<Line> titles;
    for (const std::string_view title :
         {"GPU", tr("NAME"), tr("MEMORY"), tr("USED"), tr("RESERVED")})
      titles.emplace_back(title, Style::kFaint);
    if (columns_ >= kFreeFrom) titles.emplace_back(tr("FREE"), Style::kFaint);
    if (has_unattributed_) titles.emplace_back(tr("UNATTRIBUTED"), Style::kFaint);
    for (const std::string_view title : {tr("TOTAL"), tr("BUSY"), tr("TEMP"), tr("POWER")})
      titles.emplace_back(title, Style::kFaint);
    if (columns_ >= kClocksFrom) titles.emplace_back(tr("CLOCK"), Style::kFaint);
    if (columns_ >= kRatesFrom) titles.emplace_back(tr("PCIE IN  OUT"), Style::kFaint);
    if (has_nvlink_) titles.emplace_back(tr("NVLINK"), Style::kFaint);
    table.add_row(std::move(titles));
    for (const Device* device : devices_) {
      table.add_row(device_cells(*device, bar));
      add_instances(*device, bar, table);
    }
    return table.draw(0, columns - 1);
  }
  [[nodiscard]] std::vector<Line> device_cells(const Device& device, int bar) const {
    const gpu::DeviceSample& sample = device.sample;
    std::vector<Line> cells = {Line(std::to_string(device.identity.index), Style::kStrong),
                               Line(name_text(device.identity.name), Style::kStrong)};
    add_memory(sample.memory, device.unattributed_bytes, bar, cells);
    cells.emplace_back(percent_text(sample.busy_percent));
    cells.emplace_back(celsius_text(sample.celsius));
    cells.emplace_back(power_text(device, columns_ >= kLimitFrom));
    if (columns_ >= kClocksFrom) cells.emplace_back(clocks_text(sample));
    if (columns_ >= kRatesFrom) cells.emplace_back(both_rates(device));
    if (has_nvlink_) cells.emplace_back(rate_text(history_.nvlink_bytes_per_second(device)));
    return cells;
  }
  void add_memory(const gpu::DeviceMemory& memory, const std::optional<int64_t>& unattributed,
                  int bar, std::vector<Line>& cells) const {
    cells.push_back(bar > 0 ? memory_bar(memory, unattributed, bar) : Line());
    cells.emplace_back(bytes_text(memory.used_bytes), Style::kStrong);
    cells.emplace_back(bytes_text(memory.reserved_bytes));
    if (columns_ >= kFreeFrom) cells.emplace_back(bytes_text(memory.free_bytes));
    if (has_unattributed_)
      cells.emplace_back(unattributed ? format_bytes_signed(*unattributed) : kUnknown,
                         Style::kWarning);
    cells.emplace_back(bytes_text(memory.total_bytes));
  }
  void add_instances(const Device& device, int bar, Table& table) const {
    const auto add = [&](const gpu::DeviceMemory& memory, std::vector<Line>& cells) {
      add_memory(memory, std::nullopt, bar, cells);
    };
    add_instance_rows(device, add, table);
  }
  static void add_remarks(const Device& device, std::vector<DeviceLine>& lines) {
    DeviceLineKind kind = DeviceLineKind::kWorst;
    const auto show_message = [&](std::string_view mark, std::string_view text, Style style) {
      Line line = Line().pad_to(kIndent).add(mark, style).add(text, style);
      lines.push_back(
          {std::move(line), device.identity.index, std::exchange(kind, DeviceLineKind::kRemark)});
    };
    for (const Remark& remark : remarks(device))
      show_message(remark.mark, remark.text, remark.style);
    for (const watch::XidCount& xid : device.xids.value_or(std::vector<watch::XidCount>())) {
      const std::string time = clock_text(xid.last_time_ns).substr(kClock);
      show_message("✖ ",
                   xid.count == 1 ? trf("Xid {} from the driver, once, at {}", xid.xid, time)
                                  : trf("Xid {} from the driver, {} times, last at {}", xid.xid,
                                        xid.count, time),
                   Style::kBad);
    }
  }

  const History& history_;
  int columns_;
  bool has_nvlink_ = false;
  bool has_unattributed_ = false;
  std::vector<const Device*> devices_;
};

}  // namespace

std::vector<DeviceLine> device_lines(const watch::Snapshot& snapshot, const History& history,
                                     std::optional<uint32_t> only, Size size) {
  return DeviceTable(snapshot, history, only, size).draw();
}

namespace {

constexpr int kMinWidth = 28;
constexpr int kMinHeight = 5;  // rows: a title, three of the plot, the axis
constexpr int kGutter = 6;     // columns for the axis at the left
constexpr int kPlotGap = 2;

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
    line.add(is_memory ? tr("busy ") + percent_text(sample.busy_percent)
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
    const int right = axis + 1 + columns() - display_width(tr("now"));
    if (left + display_width(oldest) < right) grid_.put({left, below}, oldest, Style::kFaint);
    grid_.put({right, below}, tr("now"), Style::kFaint);
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
