// handle(): applies a key or mouse event to vram top's state, and returns a request to the caller,
// if any. Never waits; pure except for the state.
#pragma once

#include "show/top/history.hpp"
#include "show/top/state.hpp"
#include "watch/snapshot.hpp"

namespace vram::show::top {

// What was on the screen when the key was pressed.
struct Seen {
  const watch::Snapshot& snapshot;
  const History& history;
  Size size;
};

[[nodiscard]] Request handle(TopState& state, const Seen& seen, const Event& event);

}  // namespace vram::show::top
