// Dialogs of vram top: opened by a key, they take all keys until they are closed. Pure functions;
// open_*() and handle_dialog() change the state alone.
#pragma once

#include "show/top/grid.hpp"
#include "show/top/screen.hpp"
#include "show/top/state.hpp"
#include "watch/snapshot.hpp"

namespace vram::show::top {

void open_help(TopState& state);
void open_setup(TopState& state);
void open_sort(TopState& state);
void open_user(const watch::Snapshot& snapshot, TopState& state);
void open_filter(TopState& state);
void open_search(TopState& state);
// For the tagged processes, else the selected one; without any, shows a message.
void open_signal(const View& view, const watch::Snapshot& snapshot, TopState& state);
void open_trim(const View& view, const watch::Snapshot& snapshot, TopState& state);

// Only while a dialog is open.
[[nodiscard]] Request handle_dialog(TopState& state, const View& view, const Event& event);
// Selects the next row that contains the search text, from `from` on; shows a message if there is
// none.
void select_match(const View& view, size_t from, TopState& state);

// Nothing while none is open.
void draw_dialog(const TopState& state, Grid& grid);

}  // namespace vram::show::top
