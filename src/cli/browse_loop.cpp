#include "cli/browse_loop.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "pictures/axis.hpp"
#include "show/browse/screen.hpp"
#include "show/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <poll.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace vram::cli {
namespace {

using show::PlotMark;
using show::Style;
using show::browse::Range;

constexpr int kColumnsPerLabel = 14;

pictures::Window window_of(const explain::DeviceView& view, const Range& range) {
  const bool has_time = view.clock.kind() == explain::Clock::kTime;
  return {has_time ? pictures::AxisKind::kTime : pictures::AxisKind::kEvent, range.from, range.to};
}

Range whole_of(const explain::DeviceView& view) {
  const auto window = pictures::find_window(view, {});
  // Without options nothing can be asked for that is not there.
  VRAM_CHECK(window.has_value());
  return {window->from, window->to};
}

}  // namespace

BrowseLoop::BrowseLoop(const trace::Trace& trace, const explain::Report& report,
                       show::Terminal terminal)
    : trace_(trace),
      report_(report),
      terminal_(std::move(terminal)),
      view_(trace, report, report.main_device),
      curve_(explain::draw_curve(trace, view_.device, view_.history, view_.clock, 1)),
      whole_(whole_of(view_)),
      scale_(view_, window_of(view_, whole_)) {
  state_.range = whole_;
  state_.event =
      view_.report.at ? view_.report.at->moment.event : view_.report.peak.requested.event;
}

show::browse::Seen BrowseLoop::seen() const {
  return {report_, view_.report, whole_, timeline_, shown_, terminal_.size()};
}

// The columns of the range, and the marks in it.
void BrowseLoop::find_timeline() {
  const int count = show::browse::plot_columns(terminal_.size().columns);
  if (timeline_range_ == state_.range && timeline_columns_ == count) return;
  const pictures::Window window = window_of(view_, state_.range);
  const pictures::AxisScale scale(view_, window);
  const pictures::Columns columns =
      pictures::gather_totals(view_, scale, static_cast<size_t>(count));
  timeline_ = {};
  for (size_t i = 0; i < columns.peak.size(); ++i)
    timeline_.columns.push_back({columns.peak[i], columns.reserved[i]});
  timeline_.events = columns.peak_events;
  timeline_.first_events = columns.first_events;
  timeline_.last_event = columns.last_event;
  timeline_.axis_bytes = view_.report.peak.reserved.totals.reserved_bytes;
  const auto column_at = [&](double value) {
    const double share = (value - window.from) / (window.to - window.from);
    return std::clamp(static_cast<int>(share * count), 0, count - 1);
  };
  for (const auto& tick : pictures::axis_ticks(window, std::max(2, count / kColumnsPerLabel)))
    timeline_.ticks.push_back({column_at(tick.value), tick.label, Style::kFaint});
  const auto add_mark = [&](int64_t event, const std::string& label, Style style) {
    if (const auto column = show::browse::column_of(timeline_, event))
      timeline_.marks.push_back({*column, label, style});
  };
  add_mark(view_.report.peak.requested.event, tr("peak"), Style::kPlain);
  for (const explain::Oom& oom : view_.report.ooms)
    add_mark(oom.moment.event, tr("out of memory"), Style::kBad);
  const auto& steps = view_.report.steps.steps;
  for (size_t i = 0; i < steps.size(); ++i)
    if (const auto column =
            show::browse::column_of(timeline_, static_cast<int64_t>(steps[i].first_event)))
      timeline_.steps.push_back({*column, std::to_string(i), Style::kFaint});
  timeline_range_ = state_.range;
  timeline_columns_ = count;
}

void BrowseLoop::find_state() {
  if (shown_event_ == state_.event) return;
  const explain::Sources sources = {trace_, view_.device, view_.history, view_.clock,
                                    curve_, view_.scopes, view_.names};
  const std::array events = {state_.event};
  shown_ = std::move(explain::states_after(sources, events).front());
  shown_event_ = state_.event;
}

// What moved the moment need not know what the timeline shows.
void BrowseLoop::keep_moment_in_range() {
  if (shown_event_ == state_.event) return;
  show::browse::include_in_range(scale_.of_event(state_.event), whole_, state_.range);
}

void BrowseLoop::go_to(const explain::MomentRequest& moment) {
  const auto found = explain::find_state(trace_, report_, report_.main_device, moment);
  if (!found) return state_.show_message(found.error().message, Style::kBad);
  state_.event = found->moment.event;
}

void BrowseLoop::draw() {
  keep_moment_in_range();
  find_state();
  find_timeline();
  terminal_.show(show::browse::draw(state_, seen(), terminal_.unicode()));
}

bool BrowseLoop::wait() const {
  std::array<pollfd, 2> sources = {pollfd{STDIN_FILENO, POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
  (void)poll(sources.data(), sources.size(), -1);
  return (sources[0].revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

bool BrowseLoop::take_signals() {
  while (const int signal = signals_.next()) {
    if (signal == SIGWINCH) {
      terminal_.resize();
    } else if (signal == SIGTSTP) {
      terminal_.suspend();
    } else if (signal != SIGUSR1) {
      return false;
    }
  }
  return true;
}

// Keys that wait together are drawn once; each sees the moment that those before it chose.
bool BrowseLoop::take_keys() {
  for (const show::top::Event& event : terminal_.events()) {
    keep_moment_in_range();
    find_state();
    find_timeline();
    const auto request = show::browse::handle(state_, seen(), event);
    if (request.kind == show::browse::RequestKind::kQuit) return false;
    if (request.kind == show::browse::RequestKind::kGoTo) go_to(request.moment);
  }
  return true;
}

void BrowseLoop::run() {
  do {
    draw();
  } while (wait() && take_signals() && take_keys());
  terminal_.restore();
}

Result<show::Terminal> open_browse_terminal(bool unicode, bool colour) {
  return show::Terminal::open(
      {unicode, colour, true,
       tr("'vram report' without --interactive prints the report, and --at a moment")});
}

void show_waiting(std::string_view text, show::Terminal& terminal) {
  show::top::Grid grid(terminal.size());
  grid.put({1, 0}, text, Style::kFaint);
  if (!terminal.unicode()) grid.make_ascii();
  terminal.show(grid);
}

}  // namespace vram::cli
