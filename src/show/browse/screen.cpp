#include "show/browse/screen.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/browse/keys.hpp"
#include "show/draw/page.hpp"
#include "show/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace vram::show::browse {
namespace {

using explain::Dimension;
using explain::Finding;
using explain::Holder;
using top::Grid;

constexpr int kMinListRows = 6;
constexpr int kMaxNoteRows = 5;
constexpr int kOtherPlotRows = 5;  // marks in two rows, the axis, its labels, steps
constexpr int kMinPlotRows = 4;
constexpr int kMaxPlotRows = 12;

// The columns of the list, from the left, each with its width; the name has the rest.
struct ListColumn {
  std::string_view title;
  int columns;
};
constexpr std::array kHolderColumns = {
    ListColumn{tr_later("REQUESTED"), 10}, ListColumn{tr_later("SHARE"), 7},
    ListColumn{tr_later("BLOCKS"), 9}, ListColumn{tr_later("LARGEST"), 10},
    ListColumn{tr_later("OLDEST"), 14}};
constexpr std::array kFindingColumns = {ListColumn{tr_later("BYTES"), 10}};

const std::vector<Holder>* holders_by(const explain::State& state, Dimension by) {
  for (const explain::Breakdown& each : state.breakdowns)
    if (each.by == by) return &each.holders;
  return nullptr;
}

bool contains_text(std::string_view text, std::string_view part) {
  return ascii_lower(text).find(ascii_lower(part)) != std::string::npos;
}

void place_rows(const Seen& seen, BrowseView& view) {
  const int rows = seen.size.rows;
  view.bar_row = rows - 1;
  view.foot_row = rows - 2;
  view.note_rows = rows >= 24 ? kMaxNoteRows : 0;
  view.note_row = view.foot_row - view.note_rows;
  const int room = view.note_row - 1 - 2 - kMinListRows - kOtherPlotRows;
  view.plot_rows = room < kMinPlotRows ? 0 : std::min(room, kMaxPlotRows) + kOtherPlotRows;
  view.totals_row = 1 + view.plot_rows;
  view.title_row = view.totals_row + 1;
  view.list_row = view.title_row + 1;
  view.list_rows = std::max(view.note_row - view.list_row, 0);
}

Plot plot_of(const BrowseState& state, const Seen& seen, int rows) {
  Plot plot;
  plot.columns = seen.timeline.columns;
  plot.marks = seen.timeline.marks;
  plot.x_ticks = seen.timeline.ticks;
  plot.steps = seen.timeline.steps;
  plot.steps_title = tr("   step");
  plot.max_rows = rows - kOtherPlotRows;
  plot.axis_bytes = seen.timeline.axis_bytes;
  if (const auto column = column_of(seen.timeline, state.event))
    plot.marks.insert(
        plot.marks.begin(),
        {*column, format_bytes(seen.state.moment.totals.requested_bytes), Style::kStrong});
  return plot;
}

// The moment's column is shown inverted, so that it is seen without colours.
void draw_timeline_of(const BrowseView& view, const BrowseState& state, const Seen& seen,
                      Grid& grid) {
  if (view.plot_rows == 0) return;
  int row = view.plot_row;
  for (const Line& line : draw_plot(plot_of(state, seen, view.plot_rows))) {
    if (row >= view.totals_row) break;
    grid.put({0, row++}, line);
  }
  const auto column = column_of(seen.timeline, state.event);
  if (!column || kPlotGutter > grid.size().columns) return;
  for (row = view.plot_row; row < view.totals_row; ++row) {
    const std::string_view edge = grid.at({kPlotGutter - 1, row}).utf8.data();
    if (edge == "│" || edge == "┤") grid.invert({kPlotGutter + *column, row}, 1);
  }
}

void draw_head(const BrowseState& state, const Seen& seen, Grid& grid) {
  const explain::Moment& moment = seen.state.moment;
  std::string at = state.event < 0 ? std::string(tr("before the first event"))
                                   : when(seen.report.clock, seen.device, moment);
  if (state.event >= 0 && seen.report.clock == explain::Clock::kTime)
    at += trf(", event {}", format_count(static_cast<uint64_t>(state.event)));
  const int columns = grid.size().columns;
  const int begin = std::max(columns - display_width(at) - 1, 0);
  Line left(tr(" vram report"), Style::kHeading);
  left.add("  " + printable(std::filesystem::path(seen.report.path).filename().string()));
  left.add("  " + device_name(seen.device), Style::kFaint);
  grid.put({0, 0}, left, std::max(begin - 2, 0));
  grid.put({begin, 0}, at, Style::kStrong);
}

void draw_totals(const BrowseView& view, const Seen& seen, Grid& grid) {
  const explain::Totals& totals = seen.state.moment.totals;
  Line line;
  const auto add = [&](std::string_view name, const std::string& value, Style style) {
    line.add(line.empty() ? "" : "   ").add(name, Style::kFaint).add(" ").add(value, style);
  };
  add(tr("requested"), format_bytes(totals.requested_bytes), Style::kStrong);
  add(tr("active"), format_bytes(totals.active_bytes), Style::kActive);
  add(tr("reserved"), format_bytes(totals.reserved_bytes), Style::kReserved);
  add(tr("utilization"), format_share(totals.requested_bytes, totals.reserved_bytes),
      Style::kPlain);
  add(tr("blocks"), format_count(seen.state.block_count), Style::kPlain);
  add(tr("segments"), format_count(seen.state.segment_count), Style::kPlain);
  grid.put({1, view.totals_row}, line);
}

std::string list_title(const BrowseState& state) {
  if (state.list == List::kFindings) return tr("FINDING");
  return trf("HOLDER {}", phrase(state.by));
}

template <typename Columns>
int draw_titles_of(const Columns& columns, int row, std::string_view last, Grid& grid) {
  int column = 0;
  for (const ListColumn& each : columns) {
    column += each.columns;
    const std::string_view title = tr(each.title);
    grid.put({column - display_width(title), row}, title);
  }
  grid.put({column + 2, row}, last, Style::kStrong);
  grid.invert({0, row}, grid.size().columns);
  return column;
}

template <typename Columns>
void draw_cells(const Columns& columns, int row, const std::vector<Line>& cells, const Line& name,
                Grid& grid) {
  int column = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    column += columns.at(i).columns;
    grid.put({column - cells[i].width(), row}, cells[i]);
  }
  const int room = std::max(grid.size().columns - column - 3, 0);
  grid.put({column + 2, row}, name.width() > room ? name.without_front(room) : name, room);
}

void draw_holder(const Holder& holder, int row, const BrowseState& state, const Seen& seen,
                 Grid& grid) {
  const std::string oldest = holder.oldest_ns <= 0 && holder.before_recording
                                 ? std::string(tr("before"))
                                 : time_text(seen.report.clock, holder.oldest_ns);
  draw_cells(
      kHolderColumns, row,
      {Line(format_bytes(holder.requested_bytes), Style::kActive),
       Line(format_share(holder.requested_bytes, seen.state.moment.totals.requested_bytes)),
       Line(format_count(holder.count)), Line(format_bytes(holder.largest_bytes)), Line(oldest)},
      Line(holder_text(state.by, holder.name)), grid);
}

void draw_list_of(const BrowseView& view, const BrowseState& state, const Seen& seen, Grid& grid) {
  const bool is_findings = state.list == List::kFindings;
  if (is_findings)
    (void)draw_titles_of(kFindingColumns, view.title_row, list_title(state), grid);
  else
    (void)draw_titles_of(kHolderColumns, view.title_row, list_title(state), grid);
  for (int i = 0; i < view.list_rows; ++i) {
    const size_t index = view.first + static_cast<size_t>(i);
    const int row = view.list_row + i;
    if (index >= view.row_count()) break;
    if (is_findings) {
      const Finding& finding = *view.findings[index];
      draw_cells(kFindingColumns, row, {Line(format_bytes(finding.bytes), Style::kWarning)},
                 Line(printable(finding.title)), grid);
    } else {
      draw_holder(*view.holders[index], row, state, seen, grid);
    }
    if (index == view.selected) grid.invert({0, row}, grid.size().columns);
  }
  if (view.row_count() > 0 || view.list_rows == 0) return;
  const bool is_filtered = view.total > 0;
  grid.put({1, view.list_row},
           is_filtered   ? tr("no row is as the filter says")
           : is_findings ? tr("nothing was found that is worth your time")
                         : tr("no memory is live at this moment"),
           Style::kFaint);
}

void draw_note(const BrowseView& view, const BrowseState& state, const Seen& seen, Grid& grid) {
  const std::vector<Line> lines = detail_of(view, state, seen);
  for (int i = 0; i < view.note_rows && i < static_cast<int>(lines.size()); ++i)
    grid.put({2, view.note_row + i}, lines[static_cast<size_t>(i)].cut(grid.size().columns - 3));
}

void draw_foot(const BrowseView& view, const BrowseState& state, Grid& grid) {
  if (!state.message.empty()) {
    grid.put({1, view.foot_row}, printable(state.message), state.message_style);
    return;
  }
  std::string text = trf("{} of {} rows", view.row_count(), view.total);
  if (!state.filter.empty()) text += tr("  filter ") + printable(state.filter);
  grid.put({1, view.foot_row}, text, Style::kFaint);
}

top::FramedText help_text() {
  top::FramedText text = {tr("Keys: press any to go back"), {}, {}};
  text.lines.emplace_back(
      tr("Up, Down, PgUp, PgDn, Home, End, the wheel move in the list; "
         "a click on the timeline chooses a moment"));
  for (const Binding& binding : all_bindings())
    text.lines.push_back(
        Line(fmt::format("{:<12}", tr(binding.keys)), Style::kStrong).add(tr(binding.about)));
  return text;
}

void draw_dialog_of(const BrowseView& view, const BrowseState& state, const Seen& seen,
                    Grid& grid) {
  // Above the foot where that says what is wrong with the text.
  const int entry_row = view.foot_row - (state.message.empty() ? 0 : 1);
  switch (state.dialog) {
    case DialogKind::kNone:
      return;
    case DialogKind::kHelp:
      return top::draw_framed(help_text(), grid);
    case DialogKind::kDetail:
      return top::draw_framed(
          {tr("Up and Down move, Esc goes back"), detail_of(view, state, seen), state.line}, grid);
    case DialogKind::kFilter:
      return top::draw_entry(entry_row, tr("filter: "), state.entry, grid);
    case DialogKind::kSearch:
      return top::draw_entry(entry_row, tr("look for: "), state.entry, grid);
    case DialogKind::kGoTo:
      top::draw_entry(entry_row, tr("go to (1.5s, step:12, event:1234, peak, oom): "), state.entry,
                      grid);
  }
}

void add_wrapped(std::string_view text, int columns, Style style, std::vector<Line>& lines) {
  if (text.empty()) return;
  for (const std::string& line : wrap(printable(text), columns)) lines.emplace_back(line, style);
}

}  // namespace

std::vector<Dimension> dimensions_of(const explain::State& state) {
  std::vector<Dimension> known;
  for (const Dimension each :
       {Dimension::kUserFrame, Dimension::kCategory, Dimension::kScope, Dimension::kSize,
        Dimension::kStream, Dimension::kPool, Dimension::kAge, Dimension::kStack})
    if (holders_by(state, each) != nullptr) known.push_back(each);
  return known;
}

bool mentions(const Holder& holder, Dimension by, std::string_view text) {
  return contains_text(holder_text(by, holder.name), text);
}

bool mentions(const Finding& finding, std::string_view text) {
  return contains_text(finding.title, text) || contains_text(finding.detail, text) ||
         contains_text(finding.advice, text);
}

BrowseView view_of(const BrowseState& state, const Seen& seen) {
  BrowseView view;
  place_rows(seen, view);
  if (state.list == List::kFindings) {
    view.total = seen.device.findings.size();
    for (const Finding& each : seen.device.findings)
      if (mentions(each, state.filter)) view.findings.push_back(&each);
  } else if (const auto* const holders = holders_by(seen.state, state.by)) {
    view.total = holders->size();
    for (const Holder& each : *holders)
      if (mentions(each, state.by, state.filter)) view.holders.push_back(&each);
  }
  const size_t count = view.row_count();
  view.selected = std::min(state.selected, count == 0 ? 0 : count - 1);
  const auto room = static_cast<size_t>(std::max(view.list_rows, 1));
  const size_t last_first = count > room ? count - room : 0;
  const size_t lowest = view.selected + 1 > room ? view.selected + 1 - room : 0;
  view.first =
      std::min(std::clamp(state.first, lowest, std::max(view.selected, lowest)), last_first);
  return view;
}

std::vector<Line> detail_of(const BrowseView& view, const BrowseState& state, const Seen& seen) {
  std::vector<Line> lines;
  if (view.row_count() == 0) return lines;
  const int columns = std::max(seen.size.columns - 6, 20);
  if (state.list == List::kFindings) {
    const Finding& finding = *view.findings[view.selected];
    add_wrapped(finding.title, columns, Style::kStrong, lines);
    add_wrapped(finding.detail, columns, Style::kPlain, lines);
    add_wrapped(finding.advice, columns, Style::kGood, lines);
    return lines;
  }
  const Holder& holder = *view.holders[view.selected];
  add_wrapped(holder_text(state.by, holder.name), columns, Style::kStrong, lines);
  lines.emplace_back(
      trf("{} requested, {} with rounding, in {}", format_bytes(holder.requested_bytes),
          format_bytes(holder.block_bytes), counted(holder.count, "block")),
      Style::kFaint);
  for (const explain::Frame& frame : holder.stack)
    lines.emplace_back(
        fmt::format("{}  {}:{}", printable(frame.function), printable(frame.file), frame.line));
  return lines;
}

Grid draw(const BrowseState& state, const Seen& seen, bool unicode) {
  Grid grid(seen.size);
  const BrowseView view = view_of(state, seen);
  draw_head(state, seen, grid);
  draw_timeline_of(view, state, seen, grid);
  draw_totals(view, seen, grid);
  draw_list_of(view, state, seen, grid);
  draw_note(view, state, seen, grid);
  draw_foot(view, state, grid);
  top::draw_bar(view.bar_row, bar_items(), grid);
  draw_dialog_of(view, state, seen, grid);
  if (!unicode) grid.make_ascii();
  return grid;
}

}  // namespace vram::show::browse
