#include "show/browse/keys.hpp"

#include "base/language.hpp"
#include "base/text.hpp"
#include "show/browse/screen.hpp"
#include "show/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace vram::show::browse {
namespace {

using explain::FindingKind;
using top::Event;
using top::Key;

constexpr double kZoom = 2;

void select(const BrowseView& view, int64_t at, BrowseState& state) {
  const auto last = std::max<int64_t>(static_cast<int64_t>(view.row_count()) - 1, 0);
  state.selected = static_cast<size_t>(std::clamp(at, int64_t{0}, last));
}

// True: the key was one that moves in the list.
bool moved(const BrowseView& view, const Event& event, BrowseState& state) {
  const auto row = top::row_by_key(event.key, static_cast<int64_t>(view.selected), view.list_rows);
  if (row) select(view, *row, state);
  return row.has_value();
}

int64_t last_event(const Seen& seen) { return static_cast<int64_t>(seen.device.events) - 1; }

void shift(double by, const Range& whole, Range& range) {
  const double length = range.to - range.from;
  range.from = std::clamp(range.from + by, whole.from, std::max(whole.from, whole.to - length));
  range.to = std::min(range.from + length, whole.to);
}

// To the next column with another moment; at the edge the timeline moves on by half its length.
void move_moment(bool is_forward, const Seen& seen, BrowseState& state) {
  const std::vector<int64_t>& events = seen.timeline.events;
  const auto column = column_of(seen.timeline, state.event);
  const auto count = static_cast<int>(events.size());
  if (column) {
    for (int i = *column + (is_forward ? 1 : -1); i >= 0 && i < count; i += is_forward ? 1 : -1) {
      const int64_t there = events[static_cast<size_t>(i)];
      if (there == state.event || (there > state.event) != is_forward) continue;
      state.event = there;
      return;
    }
  } else if (const bool is_before = !events.empty() && state.event < events.front();
             !events.empty() && is_before == is_forward) {
    state.event = is_forward ? events.front() : events.back();
    return;
  }
  const double half = (state.range.to - state.range.from) / 2;
  const Range before = state.range;
  shift(is_forward ? half : -half, seen.whole, state.range);
  // Of the edge itself only the last and the first moment remain.
  if (before == state.range)
    state.event = is_forward ? last_event(seen) : explain::kBeforeFirstEvent;
}

void move_step(bool is_forward, const Seen& seen, BrowseState& state) {
  const auto& steps = seen.device.steps.steps;
  if (steps.empty()) return state.show_message(tr("no steps were found"), Style::kWarning);
  const auto is_before = [&](const explain::Step& step) {
    return static_cast<int64_t>(step.peak_event) < state.event;
  };
  if (is_forward) {
    for (const explain::Step& step : steps) {
      if (static_cast<int64_t>(step.peak_event) <= state.event) continue;
      state.event = static_cast<int64_t>(step.peak_event);
      return;
    }
    return state.show_message(tr("this is the last step's peak, or behind it"), Style::kWarning);
  }
  const auto found = std::find_if(steps.rbegin(), steps.rend(), is_before);
  if (found == steps.rend())
    return state.show_message(tr("this is the first step's peak, or before it"), Style::kWarning);
  state.event = static_cast<int64_t>(found->peak_event);
}

void next_oom(const Seen& seen, BrowseState& state) {
  const auto& ooms = seen.device.ooms;
  if (ooms.empty()) return state.show_message(tr("no request failed"), Style::kWarning);
  const auto after = std::ranges::find_if(
      ooms, [&](const explain::Oom& oom) { return oom.moment.event > state.event; });
  state.event = (after == ooms.end() ? ooms.front() : *after).moment.event;
}

void next_by(const Seen& seen, BrowseState& state) {
  const auto known = dimensions_of(seen.state);
  if (known.empty()) return;
  const auto now = std::ranges::find(known, state.by);
  state.by = now == known.end() || now + 1 == known.end() ? known.front() : *(now + 1);
  state.list = List::kHolders;
  state.selected = 0;
}

void select_match(const BrowseView& view, size_t from, BrowseState& state) {
  const size_t count = view.row_count();
  for (size_t i = 0; !state.search.empty() && i < count; ++i) {
    const size_t at = (from + i) % count;
    const bool matches = state.list == List::kFindings
                             ? mentions(*view.findings[at], state.search)
                             : mentions(*view.holders[at], state.by, state.search);
    if (!matches) continue;
    state.selected = at;
    return;
  }
  state.show_message(trf("no row mentions '{}'", state.search), Style::kWarning);
}

void open_entry(DialogKind kind, BrowseState& state) {
  state.dialog = kind;
  state.entry = kind == DialogKind::kFilter ? state.filter : "";
}

// Where the evidence of a finding is: its moment, and the holders that it names.
void show_evidence(const explain::Finding& finding, const Seen& seen, BrowseState& state) {
  const explain::DeviceReport& device = seen.device;
  switch (finding.kind) {
    case FindingKind::kOom:
      if (!device.ooms.empty()) state.event = device.ooms.front().moment.event;
      break;
    case FindingKind::kLeak:
    case FindingKind::kGrowth:
      state.event = last_event(seen);
      if (const auto& steps = device.steps.steps; !steps.empty())
        state.event = static_cast<int64_t>(steps.back().first_event + steps.back().event_count) - 1;
      break;
    case FindingKind::kFragmentation:
    case FindingKind::kReleasable:
    case FindingKind::kPending:
    case FindingKind::kRounding:
    case FindingKind::kStreams:
    case FindingKind::kMixedLifetimes:
      state.event = device.at_reserved_peak.moment.event;
      break;
    case FindingKind::kRecording:
      return state.show_message(tr("this is about the whole recording"));
    default:
      state.event = device.peak.requested.event;
  }
  state.list = List::kHolders;
  state.by = explain::Dimension::kUserFrame;
  state.selected = 0;
  state.filter = finding.line;
  state.show_message(tr("the moment of: ") + finding.title, Style::kStrong);
}

void open_detail(const BrowseView& view, const Seen& seen, BrowseState& state) {
  if (view.row_count() == 0) return;
  if (state.list == List::kFindings)
    return show_evidence(*view.findings[view.selected], seen, state);
  state.dialog = DialogKind::kDetail;
  state.line = 0;
}

// Around the moment.
void zoom(double factor, const Seen& seen, BrowseState& state) {
  const double least = seen.report.clock == explain::Clock::kTime ? 1000 : 10;
  const double length =
      std::clamp((state.range.to - state.range.from) / factor,
                 std::min(least, seen.whole.to - seen.whole.from), seen.whole.to - seen.whole.from);
  const double at = seen.report.clock == explain::Clock::kTime
                        ? static_cast<double>(seen.state.moment.time_ns)
                        : static_cast<double>(state.event + 1);
  state.range = {at - length / 2, at + length / 2};
  shift(0, seen.whole, state.range);
}

Request act(Action action, const BrowseView& view, const Seen& seen, const Event& event,
            BrowseState& state) {
  switch (action) {
    case Action::kHelp:
      state.dialog = DialogKind::kHelp;
      break;
    case Action::kNextList:
      state.list = state.list == List::kHolders ? List::kFindings : List::kHolders;
      state.selected = 0;
      break;
    case Action::kSearch:  // "/" asks for another text, F3 continues
      if (event.key == Key::kText || state.search.empty())
        open_entry(DialogKind::kSearch, state);
      else
        select_match(view, view.selected + 1, state);
      break;
    case Action::kFilter:
      open_entry(DialogKind::kFilter, state);
      break;
    case Action::kGoTo:
      open_entry(DialogKind::kGoTo, state);
      break;
    case Action::kNextBy:
      next_by(seen, state);
      break;
    case Action::kDetail:
      open_detail(view, seen, state);
      break;
    case Action::kBack:
    case Action::kForward:
      move_moment(action == Action::kForward, seen, state);
      break;
    case Action::kEventBack:
    case Action::kEventForward:
      state.event = std::clamp(state.event + (action == Action::kEventForward ? 1 : -1),
                               explain::kBeforeFirstEvent, last_event(seen));
      break;
    case Action::kStepBack:
    case Action::kStepForward:
      move_step(action == Action::kStepForward, seen, state);
      break;
    case Action::kPeak:
      state.event = seen.device.peak.requested.event;
      break;
    case Action::kOom:
      next_oom(seen, state);
      break;
    case Action::kZoomIn:
    case Action::kZoomOut:
      zoom(action == Action::kZoomIn ? kZoom : 1 / kZoom, seen, state);
      break;
    case Action::kWhole:
      state.range = seen.whole;
      break;
    case Action::kQuit:
      return {RequestKind::kQuit};
  }
  return {};
}

// True: the text is taken, the dialog is done.
Request accept_entry(const BrowseView& view, BrowseState& state) {
  const DialogKind kind = state.dialog;
  state.dialog = DialogKind::kNone;
  if (kind == DialogKind::kFilter) {
    state.filter = state.entry;
    state.selected = 0;
  } else if (kind == DialogKind::kSearch) {
    state.search = state.entry;
    select_match(view, view.selected, state);
  } else if (auto moment = explain::parse_moment(tr("this"), state.entry)) {
    return {RequestKind::kGoTo, *moment};
  } else {
    state.dialog = kind;
    state.show_message(moment.error().message, Style::kBad);
  }
  return {};
}

Request handle_dialog(const BrowseView& view, const Seen& seen, const Event& event,
                      BrowseState& state) {
  switch (state.dialog) {
    case DialogKind::kFilter:
    case DialogKind::kSearch:
    case DialogKind::kGoTo:
      if (event.key == Key::kEnter) return accept_entry(view, state);
      if (event.key == Key::kEscape) state.dialog = DialogKind::kNone;
      top::edit_entry(event, state.entry);
      return {};
    case DialogKind::kDetail: {
      const size_t lines = detail_of(view, state, seen).size();
      if (event.key == Key::kUp || event.key == Key::kWheelUp) {
        state.line -= std::min<size_t>(state.line, 1);
      } else if (event.key == Key::kDown || event.key == Key::kWheelDown) {
        state.line = std::min(state.line + 1, lines == 0 ? 0 : lines - 1);
      } else {
        state.dialog = DialogKind::kNone;
      }
      return {};
    }
    default:
      state.dialog = DialogKind::kNone;
      return {};
  }
}

// What a click means as a key; a row or a moment is taken at once.
std::optional<Event> clicked(const BrowseView& view, const Seen& seen, const top::Place& place,
                             BrowseState& state) {
  if (place.row == view.bar_row) {
    if (const auto key = top::key_at(place.column, bar_items())) return Event{*key, "", {}};
  } else if (place.row >= view.list_row && place.row < view.list_row + view.list_rows) {
    select(view, static_cast<int64_t>(view.first) + place.row - view.list_row, state);
  } else if (place.row >= view.plot_row && place.row < view.plot_row + view.plot_rows) {
    const int column = place.column - kPlotGutter;
    if (column >= 0 && column < static_cast<int>(seen.timeline.events.size()))
      state.event = seen.timeline.events[static_cast<size_t>(column)];
  }
  return std::nullopt;
}

}  // namespace

Request handle(BrowseState& state, const Seen& seen, const Event& event) {
  const BrowseView view = view_of(state, seen);
  state.message.clear();
  state.selected = view.selected;
  if (state.dialog != DialogKind::kNone) return handle_dialog(view, seen, event, state);
  std::optional<Event> meant = event;
  if (event.key == Key::kClick) meant = clicked(view, seen, event.place, state);
  Request request;
  if (meant && !moved(view, *meant, state)) {
    if (const auto action = action_of(*meant)) {
      request = act(*action, view, seen, *meant, state);
    } else if (meant->key == Key::kEscape) {
      state.filter.clear();
    }
  }
  // Where the list stands is remembered, so that it moves no farther than it must.
  state.first = view_of(state, seen).first;
  return request;
}

void include_in_range(double value, const Range& whole, Range& range) {
  if (value >= range.from && value <= range.to) return;
  shift(value - (range.from + range.to) / 2, whole, range);
}

std::optional<int> column_of(const BrowseTimeline& timeline, int64_t event) {
  const std::vector<int64_t>& first = timeline.first_events;
  if (first.empty() || event < first.front() || event > timeline.last_event) return std::nullopt;
  const auto found = std::ranges::lower_bound(first, event);
  const auto column = static_cast<int>(found - first.begin());
  return found != first.end() && *found == event ? column : column - 1;
}

}  // namespace vram::show::browse
