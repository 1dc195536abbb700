// Finds the smallest capacity with which a program completes, in steps of 2 MiB. With a caching
// allocator, more memory does not always help: other blocks are found, split and kept, so
// completion is not monotone in the capacity. The program completes with the result and with the
// next larger step, but not with the next smaller one. The search bisects as if completion were
// monotone, then checks below the result; smaller capacities further below may also suffice.
#pragma once

#include "replay/program.hpp"
#include "replay/run.hpp"

#include <cstdint>
#include <optional>

namespace vram::replay {

struct MinCapacity {
  uint64_t capacity_bytes = 0;
  uint64_t retries = 0;  // with that capacity
};

// None if the program completes with no tried capacity.
[[nodiscard]] std::optional<MinCapacity> find_min_capacity(const Program& program, const Peer& peer,
                                                           const AllocatorSpec& spec,
                                                           const ReplayOptions& options);

// The maximum of bytes that a program holds at once, a lower bound for every allocator. Pure;
// linear in the ops.

// Requested bytes, without rounding, from allocation to free; blocks that other streams still use
// after their free do not count, since an allocator may wait for them. A refused request counts if
// it ended the program, and of a choice the least request.
[[nodiscard]] uint64_t peak_live_bytes(const Program& program);

}  // namespace vram::replay
