// The objects of vram.status/1 that other documents have, too: a device, a process (docs/json.md).
// Pure functions of the snapshot's parts.
#pragma once

#include "base/json.hpp"
#include "watch/snapshot.hpp"

#include <string>
#include <vector>

namespace vram::show {

[[nodiscard]] Json json_device(const watch::Device& device);
[[nodiscard]] Json json_process(const watch::Process& process);

}  // namespace vram::show
