// vram status -q: everything that is known of each device and its processes, one value a line,
// untruncated. A pure function of the snapshot and the terminal's properties.
#pragma once

#include "show/draw/page.hpp"
#include "watch/snapshot.hpp"

#include <string>

namespace vram::show {

[[nodiscard]] std::string draw_status_detail(const watch::Snapshot& snapshot,
                                             const TextOptions& options = {});

}  // namespace vram::show
