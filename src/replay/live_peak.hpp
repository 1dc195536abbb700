// The maximum of bytes that a program holds at once, a lower bound for every allocator. Pure;
// linear in the ops.
#pragma once

#include "replay/program.hpp"

#include <cstdint>

namespace vram::replay {

// Requested bytes, without rounding, from allocation to free; blocks that other streams still use
// after their free do not count, since an allocator may wait for them. A refused request counts if
// it ended the program.
[[nodiscard]] uint64_t peak_live_bytes(const Program& program);

}  // namespace vram::replay
