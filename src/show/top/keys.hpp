// handle(): what a key or the mouse changes in vram top's state, and what it asks of the outside.
// Waits for nothing; a pure function but for the state it changes.
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
