#include "show/status_processes.hpp"

#include "base/text.hpp"
#include "show/draw/table.hpp"
#include "show/process_words.hpp"
#include "show/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace vram::show {
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
  bool wide_only;  // on a narrow screen it is said in the line below
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

constexpr Field kFields[] = {{"pid", kLeft, true, false, pid_cell},
                             {"user", kName, true, false, user_cell},
                             {"runs in", kName, false, false, place_cell},
                             {"MIG", kLeft, false, false, instance_cell},
                             {"memory", kRight, true, false, memory_cell},
                             {"host mem", kRight, false, false, host_cell},
                             {"busy", kRight, false, false, busy_cell},
                             {"allocated", kRight, false, true, allocated_cell},
                             {"reserved", kRight, false, true, reserved_cell},
                             {"cached", kRight, false, true, cached_cell},
                             {"step time", kRight, false, true, step_cell},
                             {"scope", kName, false, true, scope_cell},
                             {"command", kName, true, false, command_cell}};

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

// What a process says of itself, where there is no room for columns of it; empty where it is
// silent.
Line detail_line(const Row& row, int columns) {
  std::string text;
  const auto add_figure = [&](std::string_view what, const std::string& figure) {
    if (figure == kUnknown) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, figure);
  };
  using Figures = watch::AllocatorFigures;
  add_figure("allocated", bytes_text(figure(row, &Figures::allocated_bytes)));
  add_figure("reserved", bytes_text(figure(row, &Figures::reserved_bytes)));
  add_figure("cached", bytes_text(figure(row, &Figures::cached_bytes)));
  add_figure("step", step_time_text(row.process));
  const int room = columns - kDetailIndent - display_width(text) - display_width(", in ");
  add_figure("in", shorten_front(name_text(row.process.scope), std::min(room, kScopeColumns)));
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
    titles.emplace_back(field.title, Style::kFaint);
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
