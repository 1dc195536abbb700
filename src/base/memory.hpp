// How much memory a reader may take before it refuses to go on. Any thread.
#pragma once

#include <cstdint>

namespace vram {

// Four fifths of the machine's physical memory, and never less than 512 MiB: what a file may make a
// reader hold, so that a hostile one ends in an error line and not in a killed machine.
[[nodiscard]] uint64_t most_of_the_memory_bytes();

}  // namespace vram
