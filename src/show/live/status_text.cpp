#include "show/live/status_text.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/draw/page.hpp"
#include "show/live/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace vram::show {
namespace {

using gpu::DeviceMemory;
using watch::Device;

constexpr int kMaxWidth = 240;
constexpr int kRoomy = 100;  // from here on there is room for the figures one can do without
constexpr int kMinBarWidth = 10;
constexpr int kMaxBarWidth = 32;

// Lines of the device table: a device's own is followed by those of its MIG instances.
struct DeviceLines {
  Line titles;
  std::vector<std::vector<Line>> devices;
};

class DeviceTable {
 public:
  DeviceTable(const watch::Snapshot& snapshot, const Page& page)
      : snapshot_(snapshot), page_(page), roomy_(page.columns() >= kRoomy) {}

  [[nodiscard]] DeviceLines draw() const {
    const int bar = page_.options().bars ? bar_columns() : 0;
    return sorted(table(bar).draw(0, page_.columns()));
  }

 private:
  // What the other columns leave; the name gives way to a bar of the least width.
  [[nodiscard]] int bar_columns() const {
    int natural = 0;
    for (const Line& line : table(0).draw(0, kMaxWidth * 4))
      natural = std::max(natural, line.width());
    return std::clamp(page_.columns() - natural - 2, kMinBarWidth, kMaxBarWidth);
  }
  [[nodiscard]] Table table(int bar) const {
    constexpr Column kRightWhole = {Align::kRight, Shrink::kNothing};
    constexpr Column kMayGo = {Align::kRight, Shrink::kNothing, true};
    Table table({{},
                 {Align::kLeft, Shrink::kCut},
                 {.may_go = true},
                 kRightWhole,
                 kMayGo,
                 kRightWhole,
                 kRightWhole,
                 kRightWhole,
                 kMayGo,
                 kMayGo});
    std::vector<Line> titles;
    for (const char* title :
         {"GPU", tr("name"), bar > 0 ? tr("memory") : "", tr("used"), tr("reserved"),
          roomy_ ? tr("free") : "", tr("total"), tr("busy"), tr("temp"), tr("power")})
      titles.emplace_back(title, Style::kFaint);
    table.add_row(std::move(titles));
    for (const Device& device : snapshot_.devices) {
      add_device(device, bar, table);
      add_instances(device, bar, table);
    }
    return table;
  }
  void add_device(const Device& device, int bar, Table& table) const {
    std::vector<Line> cells = {Line(std::to_string(device.identity.index), Style::kStrong),
                               Line(name_text(device.identity.name), Style::kStrong)};
    add_memory(device.sample.memory, device.unattributed_bytes, bar, cells);
    cells.emplace_back(percent_text(device.sample.busy_percent));
    cells.emplace_back(celsius_text(device.sample.celsius));
    cells.emplace_back(power_text(device, roomy_));
    table.add_row(std::move(cells));
  }
  void add_memory(const DeviceMemory& memory, const std::optional<int64_t>& unattributed, int bar,
                  std::vector<Line>& cells) const {
    cells.push_back(bar > 0 ? memory_bar(memory, unattributed, bar) : Line());
    cells.emplace_back(bytes_text(memory.used_bytes), Style::kStrong);
    cells.emplace_back(bytes_text(memory.reserved_bytes));
    cells.push_back(roomy_ ? Line(bytes_text(memory.free_bytes)) : Line());
    cells.emplace_back(bytes_text(memory.total_bytes));
  }
  void add_instances(const Device& device, int bar, Table& table) const {
    const auto add = [&](const gpu::DeviceMemory& memory, std::vector<Line>& cells) {
      add_memory(memory, std::nullopt, bar, cells);
    };
    add_instance_rows(device, add, table);
  }
  [[nodiscard]] DeviceLines sorted(const std::vector<Line>& lines) const {
    DeviceLines result = {lines.front(), {}};
    auto next = lines.begin() + 1;
    for (const Device& device : snapshot_.devices) {
      const auto end = next + 1 + static_cast<ptrdiff_t>(device.health.mig_instances.size());
      result.devices.emplace_back(next, end);
      next = end;
    }
    return result;
  }

  const watch::Snapshot& snapshot_;
  const Page& page_;
  bool roomy_;
};

// Whatever a library answers, no line leaves the page.
void add_fitting(const Line& line, Page& page) {
  page.add(line.width() > page.columns() ? line.cut(page.columns()) : line);
}

void draw_head(const watch::Snapshot& snapshot, Page& page) {
  Line line(snapshot.host.empty() ? kUnknown : printable(snapshot.host), Style::kStrong);
  line.add("  " + clock_text(snapshot.time_ns));
  std::set<std::string> drivers;
  for (const Device& device : snapshot.devices)
    if (device.identity.driver) drivers.insert(printable(*device.identity.driver));
  if (!drivers.empty()) line.add(trf("  driver {}", fmt::join(drivers, ", ")), Style::kFaint);
  add_fitting(line, page);
}

void draw_remarks(const Device& device, Page& page) {
  const Line lead = Line().pad_to(kProcessIndent);
  if (const std::string text = unattributed_text(device); !text.empty())
    page.paragraph(lead, text, Style::kWarning);
  for (const Remark& remark : remarks(device))
    page.paragraph(Line(lead).add(remark.mark, remark.style), remark.text, remark.style);
}

// Who uses the device; a device that was not asked, or failed, says why in its remarks.
void draw_users(const Device& device, const ProcessLines& processes, Page& page) {
  bool any = false;
  for (const ProcessLines::Entry& entry : processes.entries) {
    if (entry.device != device.identity.index) continue;
    any = true;
    for (const Line& line : entry.lines) add_fitting(line, page);
  }
  if (any || device.sample.is_asleep || device.sample.trouble) return;
  const char* const text = device.sample.processes ? tr("no processes") : tr("processes unknown");
  page.add(Line().pad_to(kProcessIndent).add(text, Style::kFaint));
}

void draw_devices(const watch::Snapshot& snapshot, Page& page) {
  page.blank();
  if (snapshot.devices.empty()) {
    page.add(Line(tr("no GPU was found")));
    return;
  }
  const DeviceLines devices = DeviceTable(snapshot, page).draw();
  const ProcessLines processes = draw_processes(snapshot, page.columns());
  add_fitting(devices.titles, page);
  if (!processes.titles.empty()) add_fitting(processes.titles, page);
  for (size_t i = 0; i < snapshot.devices.size(); ++i) {
    for (const Line& line : devices.devices[i]) add_fitting(line, page);
    draw_users(snapshot.devices[i], processes, page);
    draw_remarks(snapshot.devices[i], page);
  }
}

void draw_legend(const watch::Snapshot& snapshot, Page& page) {
  const bool bars = std::ranges::any_of(snapshot.devices, [](const Device& device) {
    return device.sample.memory.total_bytes && device.sample.memory.used_bytes;
  });
  if (!bars || !page.options().bars) return;
  page.blank();
  page.add(memory_bar_legend(page.columns()));
}

void draw_cleaning(const watch::Snapshot& snapshot, Page& page) {
  const std::string text = cleaning_text(snapshot);
  if (text.empty()) return;
  page.blank();
  page.paragraph(Line("→ ", Style::kStrong), text);
}

void draw_notes(const watch::Snapshot& snapshot, Page& page) {
  if (snapshot.notes.empty()) return;
  page.blank();
  for (const std::string& note : snapshot.notes)
    page.paragraph(Line(tr("note  "), Style::kFaint), printable(note));
}

}  // namespace

std::string draw_status(const watch::Snapshot& snapshot, const TextOptions& options) {
  Page page(options, kMaxWidth);
  draw_head(snapshot, page);
  draw_devices(snapshot, page);
  draw_legend(snapshot, page);
  draw_cleaning(snapshot, page);
  draw_notes(snapshot, page);
  return page.finish();
}

namespace {

using watch::Process;
using watch::Use;

constexpr int kWide = 140;  // from here on there is room for everything in one line
constexpr int kDetailIndent = kProcessIndent + 2;
constexpr int kUserColumns = 14;
constexpr int kPlaceColumns = 24;
constexpr int kScopeColumns = 24;

struct Row {
  const Process& process;
  const Use& use;
};

struct Field {
  const char* title;
  Column column;
  bool always;     // also where no process has anything to say in it
  bool wide_only;  // on a narrow screen the line below has it
  Line (*cell)(const Row&);
};

std::optional<uint64_t> figure(const Row& row,
                               std::optional<uint64_t> watch::AllocatorFigures::* member) {
  return row.use.allocator ? (*row.use.allocator).*member : std::nullopt;
}

Line pid_cell(const Row& row) { return Line(std::to_string(row.process.facts->pid)); }

Line user_cell(const Row& row) {
  return Line(shorten_end(user_text(*row.process.facts), kUserColumns));
}

Line place_cell(const Row& row) {
  return Line(shorten_end(known_place_text(*row.process.facts), kPlaceColumns));
}

Line instance_cell(const Row& row) { return Line(instance_text(row.use.process)); }

Line memory_cell(const Row& row) {
  return Line(bytes_text(row.use.process.used_bytes), Style::kStrong);
}

Line host_cell(const Row& row) { return Line(bytes_text(row.use.process.host_bytes)); }

Line busy_cell(const Row& row) { return Line(percent_text(row.use.process.busy_percent)); }

Line allocated_cell(const Row& row) {
  return Line(bytes_text(figure(row, &watch::AllocatorFigures::allocated_bytes)), Style::kActive);
}

Line reserved_cell(const Row& row) {
  return Line(bytes_text(figure(row, &watch::AllocatorFigures::reserved_bytes)), Style::kReserved);
}

Line cached_cell(const Row& row) {
  return Line(bytes_text(figure(row, &watch::AllocatorFigures::cached_bytes)));
}

Line step_cell(const Row& row) { return Line(step_time_text(row.process)); }

Line scope_cell(const Row& row) {
  return Line(shorten_front(name_text(row.process.scope), kScopeColumns));
}

Line command_cell(const Row& row) {
  const watch::ProcessFacts& facts = *row.process.facts;
  return Line(command_text(facts), is_visible(facts) ? Style::kPlain : Style::kFaint);
}

constexpr Column kLeft = {};
constexpr Column kRight = {Align::kRight, Shrink::kNothing};
constexpr Column kName = {Align::kLeft, Shrink::kCut};

constexpr Field kFields[] = {{tr_later("pid"), kLeft, true, false, pid_cell},
                             {tr_later("user"), kName, true, false, user_cell},
                             {tr_later("runs in"), kName, false, false, place_cell},
                             {"MIG", kLeft, false, false, instance_cell},
                             {tr_later("memory"), kRight, true, false, memory_cell},
                             {tr_later("host mem"), kRight, false, false, host_cell},
                             {tr_later("busy"), kRight, false, false, busy_cell},
                             {tr_later("allocated"), kRight, false, true, allocated_cell},
                             {tr_later("reserved"), kRight, false, true, reserved_cell},
                             {tr_later("cached"), kRight, false, true, cached_cell},
                             {tr_later("step time"), kRight, false, true, step_cell},
                             {tr_later("scope"), kName, false, true, scope_cell},
                             {tr_later("command"), kName, true, false, command_cell}};

bool has_content(const Field& field, const std::vector<Row>& rows) {
  return std::ranges::any_of(rows, [&](const Row& row) {
    const std::string text = field.cell(row).text(false);
    return !text.empty() && text != kUnknown;
  });
}

std::vector<Field> fields_for(const std::vector<Row>& rows, int columns) {
  std::vector<Field> fields;
  for (const Field& field : kFields) {
    if (field.wide_only && columns < kWide) continue;
    if (field.always || has_content(field, rows)) fields.push_back(field);
  }
  return fields;
}

// None is nothing to show.
std::string known_text(const std::optional<uint64_t>& count) {
  return count.value_or(0) == 0 ? std::string(kUnknown) : count_text(count);
}

// What a process says of itself, where there is no room for columns of it; empty where it is
// silent.
Line detail_line(const Row& row, int columns) {
  std::string text;
  const auto add_figure = [&](std::string_view what, const std::string& figure) {
    if (figure == kUnknown) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : tr(", "), what, figure);
  };
  using Figures = watch::AllocatorFigures;
  add_figure(tr("allocated"), bytes_text(figure(row, &Figures::allocated_bytes)));
  add_figure(tr("reserved"), bytes_text(figure(row, &Figures::reserved_bytes)));
  add_figure(tr("cached"), bytes_text(figure(row, &Figures::cached_bytes)));
  add_figure(tr("retries"), known_text(figure(row, &Figures::num_alloc_retries)));
  add_figure(tr("OOMs"), known_text(figure(row, &Figures::num_ooms)));
  add_figure(tr("step"), step_time_text(row.process));
  const int room = columns - kDetailIndent - display_width(text) - display_width(tr(", in "));
  add_figure(tr("in"), shorten_front(name_text(row.process.scope), std::min(room, kScopeColumns)));
  return text.empty() ? Line() : Line().pad_to(kDetailIndent).add(text, Style::kFaint);
}

std::vector<Row> rows_of(const watch::Snapshot& snapshot) {
  std::vector<Row> rows;
  for (const Process& process : snapshot.processes)
    for (const Use& use : process.uses) rows.push_back({process, use});
  return rows;
}

std::vector<Line> cells_of(const Row& row, const std::vector<Field>& fields) {
  std::vector<Line> cells;
  cells.reserve(fields.size());
  for (const Field& field : fields) cells.push_back(field.cell(row));
  return cells;
}

Table table_of(const std::vector<Row>& rows, const std::vector<Field>& fields) {
  std::vector<Column> shapes;
  std::vector<Line> titles;
  for (const Field& field : fields) {
    shapes.push_back(field.column);
    titles.emplace_back(tr(field.title), Style::kFaint);
  }
  Table table(std::move(shapes));
  table.add_row(std::move(titles));
  for (const Row& row : rows) table.add_row(cells_of(row, fields));
  return table;
}

}  // namespace

ProcessLines draw_processes(const watch::Snapshot& snapshot, int columns) {
  const std::vector<Row> rows = rows_of(snapshot);
  ProcessLines result;
  if (rows.empty()) return result;
  const std::vector<Line> lines =
      table_of(rows, fields_for(rows, columns)).draw(kProcessIndent, columns);
  result.titles = lines.front();
  for (size_t i = 0; i < rows.size(); ++i) {
    result.entries.push_back({rows[i].use.device, {lines[i + 1]}});
    const Line detail = columns < kWide ? detail_line(rows[i], columns) : Line();
    if (!detail.empty()) result.entries.back().lines.push_back(detail);
  }
  return result;
}

}  // namespace vram::show
