#include "show/top/list.hpp"

#include "base/text.hpp"
#include "show/process_words.hpp"
#include "show/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::show::top {
namespace {

std::optional<uint64_t> whole_of(const watch::Snapshot& snapshot, uint32_t device) {
  for (const watch::Device& each : snapshot.devices) {
    if (each.identity.index == device) return each.sample.memory.total_bytes;
  }
  return std::nullopt;
}

Line command_of(const Row& row) {
  Line line(row.branch, Style::kFaint);
  if (row.process == nullptr) {
    line.add(fmt::format("parent of {}, uses no GPU itself", row.descendants), Style::kFaint);
  } else {
    const bool is_known = is_visible(*row.process->facts);
    line.add(command_text(*row.process->facts), is_known ? Style::kPlain : Style::kFaint);
  }
  if (row.is_folded) line.add(fmt::format("  (+{} folded)", row.descendants), Style::kWarning);
  return line;
}

Line cell_of(const Row& row, const ColumnPlace& place, const watch::Snapshot& snapshot) {
  if (place.field == Field::kCommand) return command_of(row);
  const FieldInfo& info = info_of(place.field);
  if (row.use == nullptr) return Line(place.field == Field::kPid ? std::to_string(row.pid) : "");
  if (place.field == Field::kSplit)
    return split_bar(*row.use, whole_of(snapshot, row.use->device), place.columns);
  return Line(info.text(*row.process, *row.use), info.style);
}

void draw_titles(const View& view, const TopState& state, Grid& grid) {
  if (view.title_band.rows == 0) return;
  const int at = view.title_band.row;
  for (const ColumnPlace& place : view.columns) {
    const FieldInfo& info = info_of(place.field);
    const bool is_sorted = place.field == state.order.sort;
    const int width = static_cast<int>(info.title.size());
    const int column = place.column + (info.is_figure ? place.columns - width : 0);
    grid.put({column, at}, info.title, is_sorted ? Style::kStrong : Style::kPlain, place.columns);
  }
  grid.invert({0, at}, grid.size().columns);
}

void draw_row(const Row& row, int at, const View& view, const watch::Snapshot& snapshot,
              Grid& grid) {
  for (const ColumnPlace& place : view.columns) {
    const Line cell = cell_of(row, place, snapshot);
    const bool is_figure = info_of(place.field).is_figure;
    const Line fitting = cell.width() > place.columns ? cell.cut(place.columns) : cell;
    const int column = place.column + (is_figure ? place.columns - fitting.width() : 0);
    grid.put({column, at}, fitting, place.columns);
  }
}

bool is_tagged(const Row& row, const TopState& state) {
  return row.use != nullptr && std::ranges::count(state.tagged, row.id().process) > 0;
}

}  // namespace

void draw_list(const View& view, const TopState& state, const watch::Snapshot& snapshot,
               bool has_cursor, Grid& grid) {
  draw_titles(view, state, grid);
  for (int i = 0; i < view.list_band.rows; ++i) {
    const size_t index = view.first + static_cast<size_t>(i);
    if (index >= view.rows.size()) break;
    const Row& row = view.rows[index];
    const int at = view.list_band.row + i;
    draw_row(row, at, view, snapshot, grid);
    if (is_tagged(row, state)) grid.put({0, at}, "•", Style::kWarning);
    if (has_cursor && index == view.selected) grid.invert({0, at}, grid.size().columns);
  }
  if (view.rows.empty() && view.list_band.rows > 0)
    grid.put({1, view.list_band.row},
             snapshot.processes.empty() ? "no processes" : "no process is as the filter says",
             Style::kFaint);
}

}  // namespace vram::show::top
