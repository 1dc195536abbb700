#include "show/top/keys.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/top/dialogs.hpp"
#include "show/top/screen.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vram::show::top {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;

void select(const View& view, int64_t at, TopState& state) {
  if (view.rows.empty()) return;
  const auto last = static_cast<int64_t>(view.rows.size()) - 1;
  state.selected_at = static_cast<size_t>(std::clamp(at, int64_t{0}, last));
  state.selected = view.rows[state.selected_at].id();
}

// Left folds a node, or goes to the family's head; Right unfolds.
void fold(const View& view, bool folds, TopState& state) {
  if (!state.order.is_tree || view.rows.empty()) return;
  const Row& row = view.rows[view.selected];
  if (folds && row.descendants > 0) state.order.folded.insert(row.pid);
  if (!folds) state.order.folded.erase(row.pid);
}

// True: the key was one that moves, or folds a tree.
bool moved(const View& view, const Event& event, TopState& state) {
  if (event.key == Key::kLeft || event.key == Key::kRight) {
    fold(view, event.key == Key::kLeft, state);
    return true;
  }
  const auto row = row_by_key(event.key, static_cast<int64_t>(view.selected), view.list_band.rows);
  if (row) select(view, *row, state);
  return row.has_value();
}

void sort_by(Field field, TopState& state) {
  state.order.sort = field;
  state.order.is_inverted = false;
}

// A second click on a title turns the order around.
void sort_or_invert(Field field, TopState& state) {
  const bool inverts = state.order.sort == field && !state.order.is_inverted;
  sort_by(field, state);
  state.order.is_inverted = inverts;
}

// Processes that have ended are tagged no more.
void untag_ended(const watch::Snapshot& snapshot, TopState& state) {
  std::erase_if(state.tagged, [&](const ProcessId& id) {
    return std::ranges::none_of(snapshot.processes, [&](const watch::Process& process) {
      return ProcessId{process.facts->pid, process.facts->start_ticks} == id;
    });
  });
}

// Among the columns that are shown.
void sort_by_neighbour(const View& view, int step, TopState& state) {
  const auto count = static_cast<int>(view.columns.size());
  if (count == 0) return;
  const auto found = std::ranges::find(view.columns, state.order.sort, &ColumnPlace::field);
  const int at = found == view.columns.end() ? 0 : static_cast<int>(found - view.columns.begin());
  state.order.sort = view.columns[static_cast<size_t>((at + step + count) % count)].field;
}

void next_device(const watch::Snapshot& snapshot, TopState& state) {
  const auto begin = snapshot.devices.begin();
  const auto now = std::ranges::find_if(snapshot.devices, [&](const watch::Device& device) {
    return state.device == device.identity.index;
  });
  const auto next = now == snapshot.devices.end() ? begin : now + 1;
  state.device.reset();
  if (next != snapshot.devices.end()) state.device = next->identity.index;
}

void next_plot(TopState& state) {
  switch (state.plot) {
    case PlotKind::kMemory:
      state.plot = PlotKind::kPower;
      return;
    case PlotKind::kPower:
      state.plot = PlotKind::kNone;
      return;
    case PlotKind::kNone:
      state.plot = PlotKind::kMemory;
  }
}

void tag(const View& view, TopState& state) {
  if (view.rows.empty()) return;
  const Row& row = view.rows[view.selected];
  if (row.process != nullptr && std::erase(state.tagged, row.id().process) == 0)
    state.tagged.push_back(row.id().process);
  select(view, static_cast<int64_t>(view.selected) + 1, state);
}

// The next of the periods that there are, in either direction.
Request change_period(bool is_longer, TopState& state) {
  const uint64_t now_ms = state.period_ns / kNsPerMs;
  const auto above = std::ranges::upper_bound(kPeriodsMs, now_ms);
  const auto at_least = std::ranges::lower_bound(kPeriodsMs, now_ms);
  uint64_t next_ms = is_longer ? kPeriodsMs.back() : kPeriodsMs.front();
  if (is_longer && above != kPeriodsMs.end()) next_ms = *above;
  if (!is_longer && at_least != kPeriodsMs.begin()) next_ms = *(at_least - 1);
  state.period_ns = next_ms * kNsPerMs;
  state.show_message(tr("a sample every ") +
                     format_duration_ns(static_cast<int64_t>(state.period_ns)));
  return {RequestKind::kSetPeriod, {}, 0};
}

void search(const View& view, TopState& state) {
  if (state.search.empty()) return open_search(state);
  select_match(view, view.selected + 1, state);
}

// Those that change what is shown and ask nothing of the outside.
void show(Action action, const View& view, const watch::Snapshot& snapshot, TopState& state) {
  switch (action) {
    case Action::kHelp:
      return open_help(state);
    case Action::kSetup:
      return open_setup(state);
    case Action::kFilter:
      return open_filter(state);
    case Action::kSort:
      return open_sort(state);
    case Action::kUser:
      return open_user(snapshot, state);
    case Action::kSignal:
      return open_signal(view, snapshot, state);
    case Action::kTrim:
      return open_trim(view, snapshot, state);
    case Action::kNextSort:
      return sort_by_neighbour(view, 1, state);
    case Action::kPreviousSort:
      return sort_by_neighbour(view, -1, state);
    case Action::kSortMemory:
      return sort_by(Field::kMemory, state);
    case Action::kSortBusy:
      return sort_by(Field::kBusy, state);
    case Action::kSortTime:
      return sort_by(Field::kStepTime, state);
    case Action::kSortPid:
      return sort_by(Field::kPid, state);
    case Action::kDevice:
      return next_device(snapshot, state);
    case Action::kPlot:
      return next_plot(state);
    case Action::kTag:
      return tag(view, state);
    default:
      return;
  }
}

Request act(Action action, const View& view, const Seen& seen, const Event& event,
            TopState& state) {
  switch (action) {
    case Action::kQuit:
      return {RequestKind::kQuit, {}, 0};
    case Action::kSampleNow:
      return {RequestKind::kSampleNow, {}, 0};
    case Action::kRelease:
      return {RequestKind::kRelease, {}, 0};
    case Action::kPause:
      state.is_paused = !state.is_paused;
      return {RequestKind::kPause, {}, 0};
    case Action::kLonger:
    case Action::kShorter:
      return change_period(action == Action::kLonger, state);
    case Action::kSearch:  // "/" asks for another text, F3 continues
      if (event.key == Key::kText)
        open_search(state);
      else
        search(view, state);
      return {};
    case Action::kTree:
      state.order.is_tree = !state.order.is_tree;
      return {};
    case Action::kInvert:
      state.order.is_inverted = !state.order.is_inverted;
      return {};
    case Action::kUntag:
      state.tagged.clear();
      return {};
    case Action::kAllocators:
      state.shows_allocators = !state.shows_allocators;
      return {};
    default:
      show(action, view, seen.snapshot, state);
      return {};
  }
}

// What a click means as a key; a row or a title is taken at once.
std::optional<Event> clicked(const View& view, const Place& place, TopState& state) {
  if (view.list_band.has(place.row)) {
    const auto at = static_cast<int64_t>(view.first) + place.row - view.list_band.row;
    if (at < static_cast<int64_t>(view.rows.size())) select(view, at, state);
  } else if (view.title_band.has(place.row)) {
    for (const ColumnPlace& column : view.columns) {
      if (place.column >= column.column && place.column < column.column + column.columns)
        sort_or_invert(column.field, state);
    }
  } else if (view.bar_band.has(place.row)) {
    if (const auto key = key_at(place.column, bar_items(state.is_readonly)))
      return Event{*key, "", {}};
  } else if (view.device_band.has(place.row)) {
    const auto at = static_cast<size_t>(place.row - view.device_band.row);
    const auto device = at < view.devices.size() ? view.devices[at].device : std::nullopt;
    if (device) state.device = state.device == device ? std::nullopt : device;
  }
  return std::nullopt;
}

}  // namespace

Request handle(TopState& state, const Seen& seen, const Event& event) {
  const View view = view_of(state, seen.snapshot, seen.history, seen.size);
  state.message.clear();
  untag_ended(seen.snapshot, state);
  if (state.dialog.kind != DialogKind::kNone) return handle_dialog(state, view, event);
  std::optional<Event> meant = event;
  if (event.key == Key::kClick) meant = clicked(view, event.place, state);
  if (meant && !moved(view, *meant, state)) {
    const auto action = action_of(*meant);
    const bool is_allowed = action && !(state.is_readonly && changes_something(*action));
    if (is_allowed) {
      Request request = act(*action, view, seen, *meant, state);
      if (request.kind != RequestKind::kNothing) return request;
    }
  }
  // Where the list stands is remembered, so that it moves no farther than it must.
  state.first = view_of(state, seen.snapshot, seen.history, seen.size).first;
  return {};
}

namespace {

constexpr std::array kBindings = {
    Binding{Action::kHelp, Key::kF1, "h?", "F1 h ?", tr_later("this page")},
    Binding{Action::kSetup, Key::kF2, "", "F2", tr_later("which columns are shown")},
    Binding{Action::kSearch, Key::kF3, "/", "F3 /",
            tr_later("look for a text; F3 again: the next one")},
    Binding{Action::kFilter, Key::kF4, "\\", "F4 \\",
            tr_later("show only some: user:ann gpu:0,1 mem>1G !text")},
    Binding{Action::kTree, Key::kF5, "t", "F5 t",
            tr_later("tree of parents and children (Left, Right fold)")},
    Binding{Action::kSort, Key::kF6, "", "F6", tr_later("choose what to sort by")},
    Binding{Action::kNextSort, Key::kText, ">", "> <",
            tr_later("sort by the next, the previous column")},
    Binding{Action::kPreviousSort, Key::kText, "<", "", ""},
    Binding{Action::kSortMemory, Key::kText, "M", "M P T N",
            tr_later("sort by memory, busy, step time, pid")},
    Binding{Action::kSortBusy, Key::kText, "P", "", ""},
    Binding{Action::kSortTime, Key::kText, "T", "", ""},
    Binding{Action::kSortPid, Key::kText, "N", "", ""},
    Binding{Action::kInvert, Key::kText, "I", "I", tr_later("the other way round")},
    Binding{Action::kSignal, Key::kF9, "k", "F9 k",
            tr_later("send a signal to what is tagged or selected")},
    Binding{Action::kTrim, Key::kF8, "a", "F8 a", tr_later("ask it to give cached memory back")},
    Binding{Action::kUser, Key::kText, "u", "u", tr_later("one user's processes")},
    Binding{Action::kDevice, Key::kText, "g", "g",
            tr_later("the next GPU alone; after the last all")},
    Binding{Action::kAllocators, Key::kF7, "v", "F7 v",
            tr_later("what allocators have, and a cleaning would give")},
    Binding{Action::kPlot, Key::kText, "o", "o",
            tr_later("other plots: power and temperature, none")},
    Binding{Action::kTag, Key::kText, " ", tr_later("Space"),
            tr_later("tag a process, for F8 and F9")},
    Binding{Action::kUntag, Key::kText, "U", "U", tr_later("untag all")},
    Binding{Action::kPause, Key::kText, "p", "p", tr_later("hold the picture still")},
    Binding{Action::kLonger, Key::kText, "+", "+ -", tr_later("sample less often, more often")},
    Binding{Action::kShorter, Key::kText, "-", "", ""},
    Binding{Action::kSampleNow, Key::kText, "r", "r", tr_later("sample now")},
    Binding{Action::kRelease, Key::kText, "w", "w",
            tr_later("release the drivers for 30 s (as SIGUSR1)")},
    Binding{Action::kQuit, Key::kF10, "q", "F10 q", tr_later("end")},
};

struct BarWord {
  std::string_view key;
  std::string_view word;
  Key means;
  bool changes;
};

constexpr std::array kBar = {BarWord{"F1", tr_later("Help  "), Key::kF1, false},
                             BarWord{"F2", tr_later("Setup "), Key::kF2, false},
                             BarWord{"F3", tr_later("Search"), Key::kF3, false},
                             BarWord{"F4", tr_later("Filter"), Key::kF4, false},
                             BarWord{"F5", tr_later("Tree  "), Key::kF5, false},
                             BarWord{"F6", tr_later("Sort  "), Key::kF6, false},
                             BarWord{"F7", tr_later("Alloc "), Key::kF7, false},
                             BarWord{"F8", tr_later("Trim  "), Key::kF8, true},
                             BarWord{"F9", tr_later("Kill  "), Key::kF9, true},
                             BarWord{"F10", tr_later("Quit"), Key::kF10, false}};

}  // namespace

std::span<const Binding> all_bindings() { return kBindings; }

std::optional<Action> action_of(const Event& event) {
  const auto* const found = std::ranges::find_if(kBindings, [&](const Binding& binding) {
    if (event.key == Key::kText)
      return event.text.size() == 1 &&
             binding.characters.find(event.text) != std::string_view::npos;
    return event.key == binding.key;
  });
  return found == kBindings.end() ? std::nullopt : std::optional(found->action);
}

bool changes_something(Action action) {
  return action == Action::kSignal || action == Action::kTrim;
}

std::vector<BarItem> bar_items(bool is_readonly) {
  std::vector<BarItem> items;
  int column = 0;
  for (const BarWord& each : kBar) {
    if (is_readonly && each.changes) continue;
    items.push_back({column, each.key, tr(each.word), each.means});
    column += static_cast<int>(each.key.size()) + display_width(tr(each.word));
  }
  return items;
}

}  // namespace vram::show::top
