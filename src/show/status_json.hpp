// vram status for programs: vram.status/1, documented field by field in docs/json.md. A pure
// function of the snapshot.
#pragma once

#include "watch/snapshot.hpp"

#include <string>

namespace vram::show {

// One JSON document with a newline at its end. ASCII alone: what a process calls itself can do
// nothing to a terminal, and comes back whole from the parser.
[[nodiscard]] std::string status_json(const watch::Snapshot& snapshot);

}  // namespace vram::show
