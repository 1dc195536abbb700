#include "show/top/devices.hpp"

#include "base/bytes.hpp"
#include "show/device_words.hpp"
#include "show/draw/table.hpp"
#include "show/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vram::show::top {
namespace {

using watch::Device;

constexpr int kFreeFrom = 100;  // columns of a screen that has room for this, too
constexpr int kLimitFrom = 110;
constexpr int kUnattributedFrom = 118;
constexpr int kClocksFrom = 130;
constexpr int kRatesFrom = 160;
constexpr int kIndent = 4;  // of what is said below a device
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
    for (const std::string_view title : {"GPU", "NAME", "MEMORY", "USED", "RESERVED"})
      titles.emplace_back(title, Style::kFaint);
    if (columns_ >= kFreeFrom) titles.emplace_back("FREE", Style::kFaint);
    if (has_unattributed_) titles.emplace_back("UNATTRIBUTED", Style::kFaint);
    for (const std::string_view title : {"TOTAL", "BUSY", "TEMP", "POWER"})
      titles.emplace_back(title, Style::kFaint);
    if (columns_ >= kClocksFrom) titles.emplace_back("CLOCK", Style::kFaint);
    if (columns_ >= kRatesFrom) titles.emplace_back("PCIE IN  OUT", Style::kFaint);
    if (has_nvlink_) titles.emplace_back("NVLINK", Style::kFaint);
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
      show_message("✖ ",
                   fmt::format("Xid {} from the driver, {} times, last at {}", xid.xid, xid.count,
                               clock_text(xid.last_time_ns).substr(kClock)),
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

}  // namespace vram::show::top
