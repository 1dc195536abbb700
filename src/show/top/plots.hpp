// Plots of what devices did: memory used as an area and busy as dots above it, or power and
// temperature, in percent over time; as many side by side as there is room for. Pure functions.
#pragma once

#include "show/top/grid.hpp"
#include "show/top/history.hpp"
#include "show/top/state.hpp"
#include "show/top/view.hpp"

#include <cstdint>

namespace vram::show::top {

void draw_plots(const watch::Snapshot& snapshot, const History& history, const TopState& state,
                uint64_t now_ns, Band band, Grid& grid);

}  // namespace vram::show::top
