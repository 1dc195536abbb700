// The smallest capacity with which a program completes, in steps of 2 MiB. More memory does not
// always help a caching allocator: other blocks are found, split and kept, so completing is not
// monotone in the capacity. The search bisects as if it were, then looks below what it found; the
// answer is a capacity that was seen to suffice together with the next larger step, not a proof
// that none smaller does.
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
