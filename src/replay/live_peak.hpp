// The most bytes that a program holds at once, whatever serves it: what no allocator can do with
// less than. Pure; linear in the ops.
#pragma once

#include "replay/program.hpp"

#include <cstdint>

namespace vram::replay {

// As asked for, without rounding, between allocation and free; what other streams still use after
// that does not count, since an allocator may wait for them. A refused request counts at its moment
// where it ended the program, and not where the program went on without.
[[nodiscard]] uint64_t peak_live_bytes(const Program& program);

}  // namespace vram::replay
