// vram status for programs: vram.status/1, documented field by field in docs/json.md. A pure
// function of the snapshot.
#pragma once

#include "watch/snapshot.hpp"

#include <string>

namespace vram::show {

// A JSON document with a final newline. Only ASCII: a process's name cannot affect a terminal, and
// the parser restores it exactly.
[[nodiscard]] std::string status_json(const watch::Snapshot& snapshot);

}  // namespace vram::show
