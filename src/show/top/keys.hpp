// handle(): applies a key or mouse event to vram top's state, and returns a request to the caller,
// if any. Never waits; pure except for the state.
#pragma once

#include "show/top/frame.hpp"
#include "show/top/state.hpp"
#include "watch/snapshot.hpp"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace vram::show::top {

// What was on the screen when the key was pressed.
struct Seen {
  const watch::Snapshot& snapshot;
  const History& history;
  Size size;
};

[[nodiscard]] Request handle(TopState& state, const Seen& seen, const Event& event);

// The key bindings of vram top: one table for the key handler, the help page, and the clickable bar
// of keys at the bottom.

enum class Action : uint8_t {
  kHelp,
  kSetup,
  kSearch,
  kFilter,
  kTree,
  kSort,
  kNextSort,
  kPreviousSort,
  kSortMemory,
  kSortBusy,
  kSortTime,
  kSortPid,
  kInvert,
  kSignal,
  kTrim,
  kQuit,
  kUser,
  kDevice,
  kPlot,
  kAllocators,
  kPause,
  kLonger,
  kShorter,
  kTag,
  kUntag,
  kSampleNow,
  kRelease,
};

struct Binding {
  Action action;
  Key key;                      // kText: none but the characters
  std::string_view characters;  // each of them
  std::string_view keys;        // as the help calls them
  std::string_view about;
};

[[nodiscard]] std::span<const Binding> all_bindings();
[[nodiscard]] std::optional<Action> action_of(const Event& event);
// With --readonly there are no such actions.
[[nodiscard]] bool changes_something(Action action);

[[nodiscard]] std::vector<BarItem> bar_items(bool is_readonly);

}  // namespace vram::show::top
