// vram status for people: a line a device, below it the processes that use it, what nobody
// accounts for, and what is wrong. A pure function of the snapshot and the shape of the terminal.
#pragma once

#include "show/report_text.hpp"
#include "watch/snapshot.hpp"

#include <string>

namespace vram::show {

// 60 to 240 columns are used; from 140 on a process takes one line whatever it says of itself.
[[nodiscard]] std::string draw_status(const watch::Snapshot& snapshot,
                                      const TextOptions& options = {});

}  // namespace vram::show
