// How dialogs look: a frame in the middle of the screen, a line of text at its bottom.
#include "base/text.hpp"
#include "show/top/bindings.hpp"
#include "show/top/dialogs.hpp"
#include "show/top/fields.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::show::top {
namespace {

constexpr int kFrame = 2;  // columns at each side: the line and a space
constexpr size_t kMaxTargets = 6;

struct Content {
  std::string title;
  std::vector<Line> lines;
  std::optional<size_t> at;  // the line that is selected
};

Content help(const TopState& state) {
  Content content = {"Keys: press any to go back", {}, {}};
  content.lines.emplace_back(
      "arrows, PgUp, PgDn, Home, End, the wheel move; a click selects, on a title sorts");
  for (const Binding& binding : all_bindings()) {
    if (binding.keys.empty() || (state.is_readonly && changes_something(binding.action))) continue;
    content.lines.push_back(
        Line(fmt::format("{:<8}", binding.keys), Style::kStrong).add(binding.about));
  }
  return content;
}

std::string title_of(DialogKind kind) {
  switch (kind) {
    case DialogKind::kSetup:
      return "Columns: space shows or hides, Esc goes back";
    case DialogKind::kSort:
      return "Sort by";
    case DialogKind::kUser:
      return "Processes of";
    case DialogKind::kSignal:
      return "Send a signal to";
    case DialogKind::kTrim:
      return "Ask to give cached memory back";
    default:
      return "";
  }
}

Content list(const TopState& state) {
  const Dialog& dialog = state.dialog;
  Content content = {title_of(dialog.kind), {}, {}};
  const size_t named = std::min(dialog.targets.size(), kMaxTargets);
  for (size_t i = 0; i < named; ++i)
    content.lines.emplace_back(printable(dialog.targets[i].label), Style::kStrong);
  if (named < dialog.targets.size())
    content.lines.emplace_back(fmt::format("and {} more", dialog.targets.size() - named));
  if (named > 0) content.lines.emplace_back();
  content.at = content.lines.size() + dialog.at;
  for (size_t i = 0; i < dialog.choices.size(); ++i) {
    std::string mark;
    if (dialog.kind == DialogKind::kSetup)
      mark = state.hidden.contains(all_fields()[i].field) ? "[ ] " : "[x] ";
    content.lines.emplace_back(mark + printable(dialog.choices[i]));
  }
  return content;
}

void draw_edge(Place place, int columns, std::string_view left, std::string_view right,
               Grid& grid) {
  const int last = place.column + columns - 1;
  for (int column = place.column; column <= last; ++column)
    grid.put({column, place.row}, column == place.column ? left : column == last ? right : "─");
}

void draw_framed(const Content& content, Grid& grid) {
  int width = display_width(content.title) + 4;
  for (const Line& line : content.lines) width = std::max(width, line.width());
  const Size whole = grid.size();
  const int columns = std::min(width + 2 * kFrame, whole.columns);
  const int shown =
      std::clamp(static_cast<int>(content.lines.size()), 0, std::max(whole.rows - 2, 0));
  const Place place = {(whole.columns - columns) / 2, std::max((whole.rows - shown - 2) / 2, 0)};
  grid.blank(place, {columns, shown + 2});
  draw_edge(place, columns, "┌", "┐", grid);
  grid.put({place.column + kFrame, place.row}, " " + content.title + " ", Style::kHeading,
           columns - 2 * kFrame);
  const int at = static_cast<int>(content.at.value_or(0));
  const int first = std::max(at + 1 - shown, 0);
  for (int i = 0; i < shown; ++i) {
    const Place row = {place.column, place.row + 1 + i};
    const int inner = columns - 2 * kFrame;
    grid.put(row, "│");
    grid.put({row.column + kFrame, row.row},
             content.lines[static_cast<size_t>(first) + static_cast<size_t>(i)].cut(inner), inner);
    grid.put({row.column + columns - 1, row.row}, "│");
    if (content.at && first + i == at) grid.invert({row.column + 1, row.row}, columns - 2);
  }
  draw_edge({place.column, place.row + shown + 1}, columns, "└", "┘", grid);
}

// Over the foot, in the last row but one; where the foot says what is wrong with the text, above
// it. The end of a long text is what one types at.
void draw_entry(const TopState& state, Grid& grid) {
  const Dialog& dialog = state.dialog;
  const Size size = grid.size();
  const int row = std::max(size.rows - (state.message.empty() ? 2 : 3), 0);
  const std::string_view lead = dialog.kind == DialogKind::kFilter ? "filter: " : "look for: ";
  grid.blank({0, row}, {size.columns, 1});
  const int column = grid.put({1, row}, lead, Style::kStrong);
  const int room = std::max(size.columns - column - 2, 1);
  const int cursor = grid.put({column, row}, shorten_front(printable(dialog.entry), room));
  grid.invert({cursor, row}, 1);
}

}  // namespace

void draw_dialog(const TopState& state, Grid& grid) {
  switch (state.dialog.kind) {
    case DialogKind::kNone:
      return;
    case DialogKind::kHelp:
      draw_framed(help(state), grid);
      return;
    case DialogKind::kFilter:
    case DialogKind::kSearch:
      draw_entry(state, grid);
      return;
    default:
      draw_framed(list(state), grid);
  }
}

}  // namespace vram::show::top
