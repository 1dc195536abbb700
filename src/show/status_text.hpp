// vram status as text: a line for each device, with its processes, unattributed memory and
// problems. A pure function of the snapshot and the terminal's properties.
#pragma once

#include "show/page.hpp"
#include "watch/snapshot.hpp"

#include <string>

namespace vram::show {

// Uses 60 to 240 columns; from 140 on, a process takes one line.
[[nodiscard]] std::string draw_status(const watch::Snapshot& snapshot,
                                      const TextOptions& options = {});

}  // namespace vram::show
