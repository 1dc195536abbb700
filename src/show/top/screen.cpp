#include "show/top/screen.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "show/draw/line.hpp"
#include "show/live/status_words.hpp"
#include "show/top/devices.hpp"
#include "show/top/dialogs.hpp"
#include "show/top/frame.hpp"
#include "show/top/keys.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::show::top {
namespace {

constexpr int kColumnGap = 1;         // between columns
constexpr int kMinCommandWidth = 16;  // columns that the command is left at least
constexpr int kMinListRows = 5;
constexpr int kMinPlotRows = 5;
constexpr int kMaxNotes = 2;

bool is_of_allocators(Field field) { return field == Field::kSplit || field == Field::kBeyond; }

bool is_of_both(Field field) {
  switch (field) {
    case Field::kPid:
    case Field::kUser:
    case Field::kGpu:
    case Field::kMemory:
    case Field::kAllocated:
    case Field::kReserved:
    case Field::kCached:
    case Field::kCommand:
      return true;
    default:
      return false;
  }
}

bool is_wanted(const FieldInfo& info, const TopState& state) {
  if (state.shows_allocators) return is_of_both(info.field) || is_of_allocators(info.field);
  return !is_of_allocators(info.field) && !state.hidden.contains(info.field);
}

bool has_content(const FieldInfo& info, const std::vector<Row>& rows) {
  if (info.field == Field::kSplit) return true;
  return std::ranges::any_of(rows, [&](const Row& row) {
    if (row.use == nullptr) return false;
    const std::string text = info.text(*row.process, *row.use);
    return !text.empty() && text != kUnknown;
  });
}

int width_of(const FieldInfo& info, const std::vector<Row>& rows) {
  int width = std::max(info.columns, display_width(tr(info.title)));
  if (info.field != Field::kPid) return width;
  for (const Row& row : rows)
    width = std::max(width, static_cast<int>(std::to_string(row.pid).size()));
  return width;
}

// Those of the highest ranks go until the others fit; the command takes what is left.
std::vector<ColumnPlace> columns_for(const TopState& state, const std::vector<Row>& rows,
                                     int columns) {
  std::vector<const FieldInfo*> shown;
  for (const FieldInfo& info : all_fields()) {
    if (is_wanted(info, state) && (info.is_always || has_content(info, rows)))
      shown.push_back(&info);
  }
  const auto needed = [&] {
    int sum = 1;  // for the tag
    for (const FieldInfo* info : shown)
      sum += info->field == Field::kCommand ? kMinCommandWidth : width_of(*info, rows) + kColumnGap;
    return sum;
  };
  while (needed() > columns) {
    const auto last = std::ranges::max_element(shown, {}, &FieldInfo::rank);
    if (last == shown.end() || (*last)->rank == 0) break;
    shown.erase(last);
  }
  std::vector<ColumnPlace> places;
  int column = 1;
  for (const FieldInfo* info : shown) {
    const int width =
        info->field == Field::kCommand ? std::max(columns - column, 0) : width_of(*info, rows);
    places.push_back({info->field, column, width});
    column += width + kColumnGap;
  }
  return places;
}

// Remarks go before instances, the worst of each device and devices themselves last; one row is
// kept to say how many went.
void leave_out_lines(int room, View& view) {
  const auto too_many = [&] {
    const auto count = static_cast<int>(view.devices.size()) + (view.left_out > 0 ? 1 : 0);
    return count > room && view.devices.size() > 1;
  };
  while (too_many()) {
    const auto last =
        std::ranges::max_element(view.devices.rbegin(), view.devices.rend(), {}, &DeviceLine::kind);
    view.devices.erase(std::next(last).base());
    ++view.left_out;
  }
}

void place_bands(const TopState& state, const watch::Snapshot& snapshot, Size size, View& view) {
  int top = 1;          // below the head
  int end = size.rows;  // what comes last goes last
  const auto take_end = [&](Band& band, int rows) {
    band.rows = std::clamp(rows, 0, std::max(end - top, 0));
    band.row = end -= band.rows;
  };
  const auto take_top = [&](Band& band, int rows) {
    band = {top, std::clamp(rows, 0, std::max(end - top, 0))};
    top += band.rows;
  };
  take_end(view.bar_band, size.rows >= 8 ? 1 : 0);
  take_end(view.foot_band, size.rows >= 4 ? 1 : 0);
  const bool has_devices = !snapshot.devices.empty();
  const int notes = static_cast<int>(snapshot.notes.size());
  take_end(view.note_band, has_devices && size.rows >= 16 ? std::min(notes, kMaxNotes) : 0);
  leave_out_lines(std::max(2, (end - top) / 2), view);
  take_top(view.device_band, static_cast<int>(view.devices.size()) + (view.left_out > 0 ? 1 : 0));
  const int list = std::max(kMinListRows, size.rows * 2 / 5);
  const int plots = end - top - 1 - list;
  const bool has_plots = has_devices && state.plot != PlotKind::kNone && plots >= kMinPlotRows;
  take_top(view.plot_band, has_plots ? plots : 0);
  take_top(view.title_band, 1);
  take_top(view.list_band, end - top);
}

void place_selection(const TopState& state, View& view) {
  if (view.rows.empty()) return;
  const auto found = std::ranges::find_if(
      view.rows, [&](const Row& row) { return state.selected && row.id() == *state.selected; });
  view.selected = found != view.rows.end() ? static_cast<size_t>(found - view.rows.begin())
                                           : std::min(state.selected_at, view.rows.size() - 1);
  const auto room = static_cast<size_t>(std::max(view.list_band.rows, 1));
  const size_t last_first = view.rows.size() > room ? view.rows.size() - room : 0;
  const size_t lowest = view.selected + 1 > room ? view.selected + 1 - room : 0;
  view.first = std::min(std::clamp(state.first, lowest, view.selected), last_first);
}

constexpr uint64_t kHangingNs = kSecondNs;  // a sample may be late by so much

std::string seconds_text(uint64_t ns) { return fmt::format("{} s", ns / kSecondNs); }

std::string duration_text(uint64_t ns) {
  return format_duration_ns(static_cast<int64_t>(std::min(ns, uint64_t{INT64_MAX})));
}

// The period where it is kept, else what it is in truth.
Line pace(const TopState& state, const watch::Sampled& sampled) {
  const std::string wanted = duration_text(state.period_ns);
  const bool has_slipped = sampled.sample_duration_ns > state.period_ns;
  if (!has_slipped || sampled.period_ns == 0) return Line(tr("every ") + wanted);
  return Line(trf("every {} instead of {}", duration_text(sampled.period_ns), wanted),
              Style::kWarning);
}

Line freshness(const TopState& state, const watch::Sampled* sampled, Clock clock) {
  Line line;
  if (clock.overdue_ns > kHangingNs) {
    const uint64_t hangs_ns = clock.overdue_ns + state.period_ns;
    line.add(trf("driver call hangs for {}", seconds_text(hangs_ns)), Style::kBad);
  }
  if (sampled == nullptr) return line;
  const uint64_t taken_ns = sampled->begin_ns + sampled->sample_duration_ns;
  const uint64_t age_ns = clock.now_ns > taken_ns ? clock.now_ns - taken_ns : 0;
  if (state.is_paused) line.add(line.empty() ? tr("paused") : tr(", paused"), Style::kWarning);
  if (age_ns >= 2 * kSecondNs && (state.is_paused || age_ns > 2 * state.period_ns || !line.empty()))
    line.add(trf("{}data {} old", line.empty() ? "" : tr(", "), seconds_text(age_ns)),
             Style::kWarning);
  if (line.empty()) line.add(pace(state, *sampled));
  return line;
}

std::string driver_of(const watch::Snapshot& snapshot) {
  for (const watch::Device& device : snapshot.devices) {
    if (device.identity.driver) return tr("  driver ") + printable(*device.identity.driver);
  }
  return "";
}

void draw_head(const TopState& state, const watch::Sampled* sampled, Clock clock, Grid& grid) {
  Line left(tr(" vram top"), Style::kHeading);
  if (sampled != nullptr) {
    const watch::Snapshot& snapshot = sampled->snapshot;
    left.add("  " + printable(snapshot.host) + "  " + clock_text(snapshot.time_ns));
    left.add(driver_of(snapshot), Style::kFaint);
  }
  const Line right = freshness(state, sampled, clock);
  const int columns = grid.size().columns;
  const int begin = std::max(columns - right.width() - 1, 0);
  grid.put({0, 0}, left, std::max(begin - 2, 0));
  grid.put({begin, 0}, right);
}

void draw_devices(const View& view, Grid& grid) {
  const Band& band = view.device_band;
  int row = band.row;
  for (const DeviceLine& each : view.devices) {
    if (band.has(row)) grid.put({1, row++}, each.line);
  }
  if (view.left_out > 0 && band.has(row))
    grid.put({1, row}, trf("({} more lines; g shows one GPU alone)", view.left_out), Style::kFaint);
}

void draw_notes(const View& view, const watch::Snapshot& snapshot, Grid& grid) {
  for (int i = 0; i < view.note_band.rows; ++i) {
    Line line(tr("note  "), Style::kFaint);
    line.add(printable(snapshot.notes[static_cast<size_t>(i)]));
    grid.put({1, view.note_band.row + i}, line.cut(grid.size().columns - 1));
  }
}

// Why there is nothing to see: all the notes, in the place of the list.
void draw_no_devices(const View& view, const watch::Snapshot& snapshot, Grid& grid) {
  int row = view.title_band.row;
  grid.put({1, row++}, tr("no GPU was found"), Style::kStrong);
  for (const std::string& note : snapshot.notes) {
    for (const std::string& text : wrap(printable(note), std::max(grid.size().columns - 4, 1))) {
      if (view.list_band.has(row)) grid.put({3, row++}, text);
    }
  }
}

std::string shown_text(const View& view, const TopState& state, const watch::Snapshot& snapshot) {
  size_t all = 0;
  for (const watch::Process& process : snapshot.processes) all += process.uses.size();
  const auto shown = static_cast<size_t>(
      std::ranges::count_if(view.rows, [](const Row& row) { return row.use != nullptr; }));
  const FieldInfo& sorted = info_of(state.order.sort);
  std::string text =
      trf("{} of {} rows, by {}{}", shown, all, is_translated() ? tr(sorted.title) : sorted.name,
          state.order.is_inverted ? tr(" inverted") : "");
  if (state.device) text += trf("  GPU {} alone", *state.device);
  if (!state.filter_text.empty()) text += tr("  filter ") + printable(state.filter_text);
  if (!state.tagged.empty()) text += trf("  {} tagged", state.tagged.size());
  return text;
}

void draw_foot(const View& view, const TopState& state, const watch::Snapshot& snapshot,
               Grid& grid) {
  if (view.foot_band.rows == 0) return;
  const Place place = {1, view.foot_band.row};
  if (!state.message.empty()) {
    grid.put(place, printable(state.message), state.message_style);
    return;
  }
  const std::string cleaning = state.shows_allocators ? cleaning_text(snapshot) : "";
  if (!cleaning.empty()) {
    grid.put(place, "→ " + cleaning, Style::kStrong);
    return;
  }
  grid.put(place, shown_text(view, state, snapshot), Style::kFaint);
}

}  // namespace

View view_of(const TopState& state, const watch::Snapshot& snapshot, const History& history,
             Size size) {
  View view;
  view.devices = device_lines(snapshot, history, state.device, size);
  view.rows = rows_of(snapshot, state.filter, state.device, state.order);
  place_bands(state, snapshot, size, view);
  view.columns = columns_for(state, view.rows, size.columns);
  place_selection(state, view);
  return view;
}

Grid draw(const TopState& state, const History& history, const watch::Sampled* sampled, Clock clock,
          Surface surface) {
  static const watch::Snapshot kNothing;
  const watch::Snapshot& snapshot = sampled == nullptr ? kNothing : sampled->snapshot;
  Grid grid(surface.size);
  const View view = view_of(state, snapshot, history, surface.size);
  draw_head(state, sampled, clock, grid);
  if (sampled == nullptr) {
    grid.put({1, 2}, tr("taking the first sample of the machine"));
  } else if (snapshot.devices.empty()) {
    draw_no_devices(view, snapshot, grid);
  } else {
    draw_devices(view, grid);
    draw_plots(snapshot, history, state, clock.now_ns, view.plot_band, grid);
    draw_list(view, state, snapshot, !surface.is_still, grid);
    draw_notes(view, snapshot, grid);
  }
  draw_foot(view, state, snapshot, grid);
  if (!surface.is_still) {
    if (view.bar_band.rows > 0) draw_bar(view.bar_band.row, bar_items(state.is_readonly), grid);
    draw_dialog(state, grid);
  }
  if (!surface.unicode) grid.make_ascii();
  return grid;
}

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
    line.add(trf("parent of {}, uses no GPU itself", row.descendants), Style::kFaint);
  } else {
    const bool is_known = is_visible(*row.process->facts);
    line.add(command_text(*row.process->facts), is_known ? Style::kPlain : Style::kFaint);
  }
  if (row.is_folded) line.add(trf("  (+{} folded)", row.descendants), Style::kWarning);
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
    const int width = display_width(tr(info.title));
    const int column = place.column + (info.is_figure ? place.columns - width : 0);
    grid.put({column, at}, tr(info.title), is_sorted ? Style::kStrong : Style::kPlain,
             place.columns);
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
    grid.put(
        {1, view.list_band.row},
        snapshot.processes.empty() ? tr("no processes") : tr("no process is as the filter says"),
        Style::kFaint);
}

}  // namespace vram::show::top
