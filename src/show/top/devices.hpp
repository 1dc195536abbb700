// The lines of vram top about devices: the table, MIG instances below their devices, and problems.
// Pure functions.
#pragma once

#include "show/top/grid.hpp"
#include "show/top/screen.hpp"
#include "show/top/state.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vram::show::top {

// Of all devices or of one; empty if there is none.
[[nodiscard]] std::vector<DeviceLine> device_lines(const watch::Snapshot& snapshot,
                                                   const History& history,
                                                   std::optional<uint32_t> only, Size size);

// Plots of what devices did: memory used as an area and busy as dots above it, or power and
// temperature, in percent over time; as many side by side as there is room for. Pure functions.

void draw_plots(const watch::Snapshot& snapshot, const History& history, const TopState& state,
                uint64_t now_ns, Band band, Grid& grid);

}  // namespace vram::show::top
