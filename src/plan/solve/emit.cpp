#include "plan/solve/emit.hpp"

#include "base/bytes.hpp"
#include "plan/verify.hpp"

#include <limits>
#include <utility>

namespace vram::plan {

Result<Schedule> measured(const Chain& chain, std::string_view solver,
                          std::vector<Operation> operations) {
  return verify(chain, operations, std::numeric_limits<uint64_t>::max()).map([&](const Cost& cost) {
    return Schedule{std::string(solver), std::move(operations), cost};
  });
}

Result<Schedule> if_it_fits(Schedule schedule, uint64_t budget_bytes) {
  const uint64_t peak = schedule.cost.peak_bytes;
  if (peak <= budget_bytes) return schedule;
  return fail(Code::kTooLarge, "{} needs at least {} ({} bytes); the budget is {} ({} bytes)",
              schedule.solver, format_bytes(peak), peak, format_bytes(budget_bytes), budget_bytes);
}

}  // namespace vram::plan
