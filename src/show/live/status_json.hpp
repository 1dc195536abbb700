// vram status for programs: vram.status/1, documented field by field in docs/json.md. A pure
// function of the snapshot.
#pragma once

#include "base/json.hpp"
#include "watch/snapshot.hpp"

#include <string>
#include <vector>

namespace vram::show {

// A JSON document with a final newline. Only ASCII: a process's name cannot affect a terminal, and
// the parser restores it exactly.
[[nodiscard]] std::string status_json(const watch::Snapshot& snapshot);

// The objects of vram.status/1 that other documents have, too: a device, a process (docs/json.md).
// Pure functions of the snapshot's parts.

[[nodiscard]] Json json_device(const watch::Device& device);
[[nodiscard]] Json json_process(const watch::Process& process);

}  // namespace vram::show
