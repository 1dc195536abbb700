// How much memory a reader may take before it refuses to go on. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace vram {

// Four fifths of the machine's physical memory, and never less than 512 MiB; but of what the
// process's cgroups allow (a container, a Slurm job, a systemd unit) no more than four fifths: what
// a file may make a reader hold, so that a hostile one ends in an error line and not in a killed
// process. `root`: the folder that has /proc and /sys.
[[nodiscard]] uint64_t default_memory_limit_bytes(const std::string& root = "");

}  // namespace vram
