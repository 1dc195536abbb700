// Waste: reserved memory that no tensor requested, by the reason why it cannot serve the next
// request; and the blocks that pin segments. Pure functions of a moment. At every moment, exactly:
//
//   reserved = requested of allocated blocks + rounding + pending + releasable + stranded
//              + private pools
//
// Pending blocks count completely (with their rounding), and every free byte is releasable,
// stranded, or of a private pool. Releasable is what empty_cache() returns: free segments of the
// default pool, and complete granules within free ranges of expandable segments. Free memory of a
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
// class without stacks): freeing that site's blocks would empty them. Counts what measure_waste()
// counts as stranded there. Sorted by stranded bytes, descending.
[[nodiscard]] std::vector<Pinner> find_pinners(const Sources& sources, const AllocatorRules& rules,
                                               const LiveSet& live);

}  // namespace vram::explain
