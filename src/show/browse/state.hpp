// BrowseState: what a user of `vram report --interactive` chose: the moment, the part of the
// recording on the timeline, the list, the selection, a dialog. Changed only by handle()
// (keys.hpp), drawn by draw() (screen.hpp). Plain values.
//
//     keys ──▶ handle ──▶ BrowseState ──▶ the caller finds the timeline and the state of the moment
//                                  └──────────────▶ draw ──▶ Grid ──▶ Terminal
#pragma once

#include "explain/report.hpp"
#include "show/draw/plot.hpp"
#include "show/top/state.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vram::show::browse {

enum class List : uint8_t { kHolders, kFindings };

enum class DialogKind : uint8_t {
  kNone,
  kHelp,
  kDetail,  // of the selected row
  kFilter,  // a line of text
  kSearch,
  kGoTo,
};

// Of the time axis: nanoseconds since the recording's first event, or numbers of events in a
// recording without a clock.
struct Range {
  double from = 0;
  double to = 1;
  bool operator==(const Range&) const = default;
};

struct BrowseState {
  int64_t event = explain::kBeforeFirstEvent;  // the moment: after this event
  Range range;                                 // on the timeline
  List list = List::kHolders;
  explain::Dimension by = explain::Dimension::kUserFrame;
  size_t selected = 0;  // row
  size_t first = 0;     // of the rows on the screen
  std::string filter;
  std::string search;
  DialogKind dialog = DialogKind::kNone;
  std::string entry;         // of a dialog in which one types
  size_t line = 0;           // of kDetail: at the cursor
  std::string message = {};  // until the next key
  Style message_style = Style::kPlain;

  void show_message(std::string text, Style style = Style::kPlain) {
    message = std::move(text);
    message_style = style;
  }
};

// The columns of the plot, and a moment for each.
struct BrowseTimeline {
  std::vector<PlotColumn> columns;
  std::vector<int64_t> events;  // after this one most was requested in the column; never falling
  std::vector<int64_t> first_events;  // of the columns; never falling
  int64_t last_event = -1;            // of the last column
  std::vector<PlotMark> ticks;
  std::vector<PlotMark> marks;  // the peak, failed requests
  std::vector<PlotMark> steps;
  uint64_t axis_bytes = 0;  // the largest value of the whole recording
};

// What a key was pressed at, and what is drawn.
struct Seen {
  const explain::Report& report;
  const explain::DeviceReport& device;
  Range whole;
  const BrowseTimeline& timeline;
  const explain::State& state;  // after BrowseState::event
  top::Size size;
};

// The columns of the plot on a screen of this width; the caller gathers as many.
[[nodiscard]] constexpr int plot_columns(int columns) {
  return columns > kPlotGutter + 2 ? columns - kPlotGutter - 1 : 1;
}

}  // namespace vram::show::browse
