// plan: the schedule for a chain and a budget, and how good it is. The module's entry point.
#pragma once

#include "plan/chain.hpp"
#include "plan/solve/rotor.hpp"
#include "plan/verify.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vram::plan {

// One solver: its schedule, or why it has none.
struct Attempt {
  std::string solver;
  std::optional<Schedule> schedule;
  std::string why_not;
};

struct Plan {
  uint64_t budget_bytes = 0;
  Schedule best;                  // the fastest that fits; of equally fast ones, the smallest
  std::vector<Attempt> attempts;  // every solver, always in the same order
  uint64_t ideal_ns = 0;          // without any recomputation
  uint64_t ideal_peak_bytes = 0;  // what that needs
  uint64_t lower_bound_ns = 0;    // no schedule within the budget is faster
  // ... of those that keep each checkpoint until the backward that reads it; if known.
  std::optional<uint64_t> persistent_bound_ns;
};

// Every schedule in the result passed verify(), so its peak is within the budget. Fails if the
// chain is invalid, or with the smallest budget that suffices. Deterministic; safe from any thread.
[[nodiscard]] Result<Plan> make_plan(const Chain& chain, uint64_t budget_bytes,
                                     const RotorSettings& settings = {});

inline constexpr size_t kSweptBudgets = 9;
// Plans for `count` budgets (at least 2) from the smallest that suffices, in equal steps, to the
// one with which nothing is recomputed. One plan if both are the same.
[[nodiscard]] Result<std::vector<Plan>> sweep(const Chain& chain, size_t count,
                                              const RotorSettings& settings = {});

// Regions: a schedule as nested checkpoint regions, which is how frameworks apply it
// (torch.utils.checkpoint around a region, inside which further regions are checkpointed when it
// runs again).
//
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
