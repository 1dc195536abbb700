// Regions: a schedule as nested checkpoint regions, which is how frameworks apply it
// (torch.utils.checkpoint around a region, inside which further regions are checkpointed when it
// runs again).
#pragma once

#include "plan/chain.hpp"
#include "plan/verify.hpp"

#include <optional>
#include <span>

namespace vram::plan {

// Consecutive stages [first, last]. Either one stage that keeps what `option` keeps, or a region
// whose forward keeps nothing but its input; when its backward comes, it runs again as `parts`.
struct Region {
  uint32_t first = 0;
  uint32_t last = 0;
  std::optional<uint32_t> option;
  std::vector<Region> parts;
};

// The regions of a schedule that verify() passed, in the order of the chain. None if the schedule
// does not nest: it frees or computes something that a region could not.
[[nodiscard]] std::optional<std::vector<Region>> regions_of(std::span<const Operation> operations,
                                                            uint32_t stage_count);

// How often each stage's forward runs.
[[nodiscard]] std::vector<uint32_t> forward_runs(std::span<const Operation> operations,
                                                 uint32_t stage_count);

}  // namespace vram::plan
