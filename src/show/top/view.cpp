#include "show/top/view.hpp"

#include "show/live/status_words.hpp"
#include "show/top/devices.hpp"

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
  int width = std::max(info.columns, static_cast<int>(info.title.size()));
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

}  // namespace vram::show::top
