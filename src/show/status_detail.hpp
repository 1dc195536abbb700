// vram status -q: everything that is known of each device and its processes, a line a figure,
// nothing cut. A pure function of the snapshot and the shape of the terminal.
#pragma once

#include "show/report_text.hpp"
#include "watch/snapshot.hpp"

#include <string>

namespace vram::show {

[[nodiscard]] std::string draw_status_detail(const watch::Snapshot& snapshot,
                                             const TextOptions& options = {});

}  // namespace vram::show
