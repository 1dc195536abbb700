// Growth in which no block stays: a tensor that is replaced by a larger one in step after step, as
// by history = torch.cat([history, x]). Part of growth.cpp. It may be a leak, or the cache of a
// sequence that ends after the recording.
#pragma once

#include "explain/growth/growth_group.hpp"
#include "explain/history/history.hpp"

#include <cstdint>
#include <vector>

namespace vram::explain {

// Whether the group is such a tensor, or several of one line:
//   - none of its blocks stays;
//   - live bytes at the ends of the steady steps rise in nearly each (Mann–Kendall, kMaxExtendedP),
//     by `min_bytes` in all;
//   - nearly all of its blocks are freed right after a larger one was allocated. A batch that is
//     prefetched while a shorter one is used is freed later.
[[nodiscard]] bool is_extended(const History& history, const GrowthWindow& w, GrowthGroup* g,
                               uint64_t min_bytes);

// Those without a stack: all have different sizes, and are found by their position in the step.
[[nodiscard]] std::vector<GrowthGroup> extended_without_stacks(
    const History& history, const GrowthWindow& w, const std::vector<GrowthSite>& sites,
    const std::vector<GrowthGroup>& groups, uint64_t min_bytes);

}  // namespace vram::explain
