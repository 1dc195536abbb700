// The smallest capacity with which a program completes, in steps of 2 MiB. More memory does not
// always help a caching allocator: other blocks are found, split and kept, so completing is not
// monotone in the capacity. The answer completes, and so does the next larger step; the next
// smaller step does not. The search bisects as if completing were monotone, then looks below what
// it found: steps farther below that complete may remain.
#pragma once

#include "replay/run.hpp"

#include <optional>

namespace vram::replay {

struct MinCapacity {
  uint64_t capacity_bytes = 0;
  uint64_t retries = 0;  // what it costs there
};

// None where the program completes with no capacity that was tried.
[[nodiscard]] std::optional<MinCapacity> find_min_capacity(const Program& program, const Peer& peer,
                                                           const AllocatorSpec& spec,
                                                           const ReplayOptions& options);

}  // namespace vram::replay
