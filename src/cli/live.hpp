// What the machine's GPUs do now, for the commands of the live half: where sources, the process
// table and the board are put together.
#pragma once

#include "base/result.hpp"
#include "watch/snapshot.hpp"

#include <string>

namespace vram::cli {

// One look. `source` is the value of --gpu: empty for whatever the machine has. May be called again
// and again; what is slow to open stays open in between. A machine without GPUs is no error: the
// snapshot's notes say why it has none. From one thread.
[[nodiscard]] Result<watch::Snapshot> look(const std::string& source);

}  // namespace vram::cli
