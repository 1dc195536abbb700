// Waste: what is reserved and yet no tensor asked for, by why it can't be given to the next
// request; and the blocks that pin segments. Pure functions of a moment. At every moment, exactly:
//
//   reserved = requested of allocated blocks + rounding + pending + releasable + stranded
//              + private pools
//
// where pending blocks count whole (their rounding with them), and every free byte is releasable,
// stranded or of a private pool. Releasable is what empty_cache() gives back: free segments of the
// default pool, and the whole granules inside free ranges of expandable segments. What is free in a
// private pool is no waste: the pool's CUDA graph writes there whenever it runs.
#pragma once

#include "explain/history/allocator_rules.hpp"
#include "explain/moment/live_set.hpp"
#include "explain/moment/sources.hpp"
#include "explain/report.hpp"

#include <cstdint>
#include <vector>

namespace vram::explain {

[[nodiscard]] Waste measure_waste(const Sources& sources, const AllocatorRules& rules,
                                  const LiveSet& live);

// Segments with free space in which all live blocks come from one site (a user frame, or a size
// class where the recording has no stacks): releasing that site's blocks would empty them. Counts
// what measure_waste() counts as stranded there. Largest stranded first.
[[nodiscard]] std::vector<Pinner> find_pinners(const Sources& sources, const AllocatorRules& rules,
                                               const LiveSet& live);

}  // namespace vram::explain
