// BrowseLoop: runs `vram report --interactive`. One thread waits for keys and signals, and computes
// what a moment's screen shows: the columns of the timeline and the holders.
//
//     keys ──▶ handle ──▶ BrowseState ──▶ timeline, state of the moment ──▶ draw ──▶ Terminal
#pragma once

#include "base/result.hpp"
#include "cli/signals.hpp"
#include "explain/moment/device_view.hpp"
#include "explain/report.hpp"
#include "pictures/columns.hpp"
#include "show/browse/keys.hpp"
#include "show/browse/state.hpp"
#include "show/terminal/terminal.hpp"
#include "trace/trace.hpp"

#include <optional>
#include <string_view>

namespace vram::cli {

class BrowseLoop {
 public:
  // Views the trace and its report. The moment is at first that of --at, or
  // the peak.
  BrowseLoop(const trace::Trace& trace, const explain::Report& report, show::Terminal terminal);

  // Until the user ends it. The terminal is restored then, and by the destructor.
  void run();

 private:
  void find_timeline();
  void find_state();
  void keep_moment_in_range();
  void draw();
  void go_to(const explain::MomentRequest& moment);
  [[nodiscard]] bool wait() const;    // false: the terminal has gone
  [[nodiscard]] bool take_signals();  // false: it is the end
  [[nodiscard]] bool take_keys();     // the same
  [[nodiscard]] show::browse::Seen seen() const;

  TopSignals signals_;
  const trace::Trace& trace_;
  const explain::Report& report_;
  show::Terminal terminal_;
  explain::DeviceView view_;
  explain::Curve curve_;
  show::browse::Range whole_;
  pictures::AxisScale scale_;  // of the whole recording
  show::browse::BrowseState state_;
  show::browse::BrowseTimeline timeline_;
  explain::State shown_;  // after shown_event_

  // What `timeline_` and `shown_` were found for.
  std::optional<show::browse::Range> timeline_range_;
  int timeline_columns_ = 0;
  std::optional<int64_t> shown_event_;
};

// kUnsupported: standard input and output are no terminal, or one that can't place text.
[[nodiscard]] Result<show::Terminal> open_browse_terminal(bool unicode, bool colour);
// A line on the empty screen, while the recording is read.
void show_waiting(std::string_view text, show::Terminal& terminal);

}  // namespace vram::cli
