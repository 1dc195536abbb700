// The memory limit of readers. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>

namespace vram {

// Returns how much memory a file may make a reader use, so that a hostile file causes an error
// instead of a killed process: 80 % of the physical memory, at least 512 MiB, but at most 80 % of
// the limits of the process's cgroups (a container, a Slurm job, a systemd unit). `root` is the
// folder with /proc and /sys.
[[nodiscard]] uint64_t default_memory_limit_bytes(const std::string& root = "");

}  // namespace vram
