#include "base/result.hpp"
#include "plan/solve/emit.hpp"
#include "plan/solve/finish.hpp"
#include "plan/solve/solvers.hpp"

#include <algorithm>
#include <utility>

namespace vram::plan {
namespace {

// How many stages can be reversed with `slots` activations if none runs more than `repeats` times
// before its backward: the binomial (slots + repeats) over slots; 0 for repeats below 0.
uint64_t reach(uint64_t slots, int64_t repeats) {
  uint64_t stages = repeats < 0 ? 0 : 1;
  for (int64_t r = 1; r <= repeats; ++r)
    stages = stages * (slots + static_cast<uint64_t>(r)) / static_cast<uint64_t>(r);
  return stages;
}

// The smallest number of repeats whose reach is at least `length`.
int64_t repeats_for(uint64_t length, uint64_t slots) {
  uint64_t stages = 1;
  int64_t repeats = 0;
  while (stages < length) {
    ++repeats;
    stages = stages * (slots + static_cast<uint64_t>(repeats)) / static_cast<uint64_t>(repeats);
  }
  return repeats;
}

// How many stages the first sweep runs: any length that leaves both parts within the reach of the
// repeats they have; this one keeps the right part as long as it can be.
uint64_t first_sweep(uint64_t length, uint64_t slots) {
  const int64_t repeats = repeats_for(length, slots);
  const uint64_t right = std::min(reach(slots - 1, repeats), length);
  return std::clamp<uint64_t>(std::max(length - right, reach(slots, repeats - 2)), 1, length - 1);
}

void reverse_equal(std::vector<Operation>& operations, const Chain& chain, uint32_t first,
                   uint32_t last, uint64_t slots) {
  // The right part is reversed first and has one slot less; the left part then becomes the whole.
  for (;;) {
    if (first == last) {
      const uint32_t option = fastest_option(chain.stages[first]);
      emit_save(operations, chain, first, option);
      emit_backward(operations, chain, first, option);
      return;
    }
    const uint64_t sweep = first_sweep(uint64_t{last} - first + 1, slots);
    const auto checkpoint = static_cast<uint32_t>(first + sweep - 1);
    emit_sweep(operations, first, checkpoint);
    reverse_equal(operations, chain, checkpoint + 1, last, slots - 1);
    operations.push_back({OpKind::kDiscard, checkpoint, 0});
    last = checkpoint;
  }
}

Result<Schedule> with_slots(const Chain& chain, uint64_t slots) {
  std::vector<Operation> operations;
  reverse_equal(operations, chain, 0, static_cast<uint32_t>(chain.stages.size() - 1), slots);
  return measured(chain, "revolve", std::move(operations));
}

}  // namespace

uint64_t revolve_runs(uint64_t length, uint64_t slots) {
  VRAM_CHECK(length == 1 || slots > 0);
  const int64_t repeats = length == 1 ? 0 : repeats_for(length, slots);
  return static_cast<uint64_t>(repeats) * length - reach(slots + 1, repeats - 1);
}

Result<Schedule> revolve(const Chain& chain, uint64_t budget_bytes) {
  Result<Schedule> best = with_slots(chain, 1);
  if (!best || best->cost.peak_bytes > budget_bytes)
    return best ? if_it_fits(std::move(*best), budget_bytes) : best;
  // More slots make it faster; the most that fit, for equal stages.
  uint64_t fits = 1;
  for (uint64_t fails = std::max<uint64_t>(chain.stages.size(), 2); fails - fits > 1;) {
    const uint64_t slots = fits + (fails - fits) / 2;
    Result<Schedule> schedule = with_slots(chain, slots);
    if (!schedule) return schedule;
    const bool does_fit = schedule->cost.peak_bytes <= budget_bytes;
    (does_fit ? fits : fails) = slots;
    if (does_fit) best = std::move(schedule);
  }
  return best;
}

}  // namespace vram::plan
