// The lines of vram top about devices: the table, MIG instances below their devices, and problems.
// Pure functions.
#pragma once

#include "show/top/history.hpp"
#include "show/top/view.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vram::show::top {

// Of all devices or of one; empty if there is none.
[[nodiscard]] std::vector<DeviceLine> device_lines(const watch::Snapshot& snapshot,
                                                   const History& history,
                                                   std::optional<uint32_t> only, Size size);

}  // namespace vram::show::top
