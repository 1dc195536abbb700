// rotor: the dynamic program of Beaumont et al. (2019) over a chain of stages of different sizes
// and times, with several options for each stage. Optimal among the schedules that keep a
// checkpoint until the backward that needs it, except for two approximations, both reported: sizes
// are rounded to slots in the table (never in the schedule), and a stretch of stages that runs
// without keeping anything has at most `window` stages.
#pragma once

#include "plan/chain.hpp"
#include "plan/solve/needs.hpp"
#include "plan/solve/rotor_table.hpp"
#include "plan/verify.hpp"

#include <optional>
#include <vector>

namespace vram::plan {

// walk: from tables to a schedule. It follows the exact number of bytes that are left, and takes of
// the branches that are certain to fit the one with the least added time.
struct Walked {
  std::vector<Operation> operations;
  uint32_t longest_sweep = 0;  // in stages
};

// Requires available_bytes >= smallest.of_chain(), without the constant bytes; the schedule then
// fits. `table` has the window of `smallest`, or is null: the branch that needs least is taken
// where the table has no time for any. The table is asked about `scale` times the bytes that are
// left: its sizes are rounded, and a little more or less can come closer to the true times.
[[nodiscard]] Walked walk(const Needs& needs, const SmallestBytes& smallest,
                          const RotorTable* table, uint64_t available_bytes, double scale = 1);

struct RotorSettings {
  uint32_t slots = 8000;
  // 0: as large as it must be. The whole chain if that is cheap; else it doubles until no sweep of
  // the schedule is longer than half of it.
  uint32_t window = 0;
  uint64_t max_table_bytes = uint64_t{200} << 20;
  uint64_t max_table_updates = 2'000'000'000;  // half a second
};

struct RotorSchedule {
  Schedule schedule;
  uint64_t slot_bytes = 0;  // 0: the limits of the settings permit no table
  uint32_t window = 0;
  bool sizes_are_exact = false;  // every size is a multiple of a slot
  uint64_t table_bytes = 0;
  // No schedule that keeps its checkpoints takes less. Absent if the window is not the whole chain.
  std::optional<uint64_t> lower_bound_ns;
};

[[nodiscard]] Result<RotorSchedule> rotor(const Chain& chain, uint64_t budget_bytes,
                                          const RotorSettings& settings = {});

// The smallest budget for which rotor() finds a schedule. O(stages^3).
[[nodiscard]] uint64_t smallest_budget_bytes(const Chain& chain);

}  // namespace vram::plan
