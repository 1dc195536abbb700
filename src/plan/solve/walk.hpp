// walk: from tables to a schedule. It follows the exact number of bytes that are left, and takes of
// the branches that are certain to fit the one with the least added time.
#pragma once

#include "plan/schedule.hpp"
#include "plan/solve/needs.hpp"
#include "plan/solve/rotor_table.hpp"

#include <vector>

namespace vram::plan {

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

}  // namespace vram::plan
