// keep_all, checkpoint_every_stage and chen cut the chain into segments, keep the input of each,
// and run each but the last again for its backward. See revolve() for the closed form.
#include "plan/solve/solvers.hpp"

#include "base/result.hpp"
#include "plan/solve/needs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

namespace vram::plan {
namespace {

constexpr int kThresholdsPerHalving = 8;

// The last stage of each segment.
using Cuts = std::vector<uint32_t>;

uint32_t last_stage(const Chain& chain) { return static_cast<uint32_t>(chain.stages.size() - 1); }

uint64_t kept_bytes(const Stage& stage) { return stage.options[fastest_option(stage)].kept_bytes; }

void reverse_segment(std::vector<Operation>& operations, const Chain& chain, uint32_t first,
                     uint32_t last) {
  for (uint32_t i = first; i <= last; ++i)
    emit_save(operations, chain, i, fastest_option(chain.stages[i]));
  for (uint32_t i = last + 1; i-- > first;)
    emit_backward(operations, chain, i, fastest_option(chain.stages[i]));
}

std::vector<Operation> segmented(const Chain& chain, const Cuts& cuts) {
  std::vector<Operation> operations;
  const auto first_of = [&](size_t segment) { return segment == 0 ? 0 : cuts[segment - 1] + 1; };
  for (size_t i = 0; i + 1 < cuts.size(); ++i) emit_sweep(operations, first_of(i), cuts[i]);
  for (size_t i = cuts.size(); i-- > 0;) {
    reverse_segment(operations, chain, first_of(i), cuts[i]);
    if (i > 0) operations.push_back({OpKind::kDiscard, cuts[i - 1], 0});
  }
  return operations;
}

// Cuts after the stage with which a segment exceeds the threshold.
Cuts cuts_of(const Chain& chain, uint64_t threshold_bytes) {
  Cuts cuts;
  uint64_t segment_bytes = 0;
  for (uint32_t i = 0; i < last_stage(chain); ++i) {
    segment_bytes += kept_bytes(chain.stages[i]);
    if (segment_bytes <= threshold_bytes) continue;
    cuts.push_back(i);
    segment_bytes = 0;
  }
  cuts.push_back(last_stage(chain));
  return cuts;
}

// From one segment to one segment for each stage.
std::vector<Cuts> cuts_to_try(const Chain& chain) {
  double total_bytes = 0;
  for (const Stage& stage : chain.stages) total_bytes += static_cast<double>(kept_bytes(stage));
  std::vector<Cuts> tried;
  const double factor = std::exp2(-1.0 / kThresholdsPerHalving);
  for (double threshold = total_bytes; threshold >= 1; threshold *= factor) {
    Cuts cuts = cuts_of(chain, static_cast<uint64_t>(threshold));
    const bool cuts_everywhere = cuts.size() == chain.stages.size();
    if (tried.empty() || cuts != tried.back()) tried.push_back(std::move(cuts));
    if (cuts_everywhere) break;
  }
  if (tried.empty()) tried.push_back(cuts_of(chain, 0));
  return tried;
}

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

// A choice of a stage: what it keeps, and what it adds to the step.
struct Choice {
  double bytes;
  double added_ns;
};

// From a choice to the next one that keeps more and adds less.
struct Exchange {
  double bytes;
  double saved_ns;
};

// The corners of the lower convex hull, by rising bytes and falling added time.
std::vector<Choice> hull_of(std::vector<Choice> choices) {
  std::ranges::sort(choices, [](const Choice& a, const Choice& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.added_ns < b.added_ns;
  });
  std::vector<Choice> hull;
  for (const Choice& each : choices) {
    if (!hull.empty() && each.added_ns >= hull.back().added_ns) continue;
    const auto is_above = [&](const Choice& before, const Choice& corner) {
      return (corner.added_ns - before.added_ns) * (each.bytes - before.bytes) >=
             (each.added_ns - before.added_ns) * (corner.bytes - before.bytes);
    };
    while (hull.size() > 1 && is_above(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(each);
  }
  return hull;
}

std::vector<Choice> choices_of(const Needs& needs, uint32_t i) {
  uint64_t again_ns = needs.stage(i).forward_ns;
  std::vector<Choice> choices;
  for (uint32_t number = 0; number < needs.option_count(i); ++number) {
    const Option& option = needs.option(i, number);
    again_ns = std::min(again_ns, option.forward_ns);
    choices.push_back(
        {static_cast<double>(option.kept_bytes), static_cast<double>(needs.extra_ns(i, number))});
  }
  choices.push_back({0, static_cast<double>(again_ns)});
  return choices;
}

uint64_t smallest_backward_peak(const Stage& stage) {
  return std::ranges::min(stage.options, {}, &Option::backward_peak_bytes).backward_peak_bytes;
}

}  // namespace

Result<Schedule> keep_all(const Chain& chain, uint64_t budget_bytes) {
  return measured(chain, "keep_all", segmented(chain, {last_stage(chain)}))
      .and_then([&](Schedule schedule) { return if_it_fits(std::move(schedule), budget_bytes); });
}

Result<Schedule> checkpoint_every_stage(const Chain& chain, uint64_t budget_bytes) {
  Cuts cuts;
  for (uint32_t i = 0; i <= last_stage(chain); ++i) cuts.push_back(i);
  return measured(chain, "checkpoint_every_stage", segmented(chain, cuts))
      .and_then([&](Schedule schedule) { return if_it_fits(std::move(schedule), budget_bytes); });
}

Result<Schedule> chen(const Chain& chain, uint64_t budget_bytes) {
  // The fastest that fits; if none fits, the one that needs least.
  const auto rank = [&](const Schedule& schedule) {
    const Cost& cost = schedule.cost;
    return cost.peak_bytes <= budget_bytes ? std::tuple(false, cost.time_ns, cost.peak_bytes)
                                           : std::tuple(true, cost.peak_bytes, cost.time_ns);
  };
  std::optional<Schedule> best;
  for (const Cuts& cuts : cuts_to_try(chain)) {
    Result<Schedule> schedule = measured(chain, "chen", segmented(chain, cuts));
    if (!schedule) return schedule;
    if (!best || rank(*schedule) < rank(*best)) best = std::move(*schedule);
  }
  return if_it_fits(std::move(*best), budget_bytes);
}

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

uint64_t lower_bound_ns(const Chain& chain, uint64_t budget_bytes) {
  const Needs needs(chain);
  const uint64_t taken = needs.constant_bytes() + smallest_backward_peak(chain.stages.back());
  if (taken > budget_bytes) return needs.ideal_ns();
  auto free_bytes = static_cast<double>(budget_bytes - taken);
  double added_ns = 0;
  std::vector<Exchange> exchanges;
  for (uint32_t i = 0; i + 1 < needs.stage_count(); ++i) {
    const std::vector<Choice> hull = hull_of(choices_of(needs, i));
    added_ns += hull.front().added_ns;
    for (size_t corner = 1; corner < hull.size(); ++corner)
      exchanges.push_back({hull[corner].bytes - hull[corner - 1].bytes,
                           hull[corner - 1].added_ns - hull[corner].added_ns});
  }
  std::ranges::sort(exchanges, [](const Exchange& a, const Exchange& b) {
    return a.saved_ns * b.bytes > b.saved_ns * a.bytes;
  });
  for (const Exchange& each : exchanges) {
    const double part = each.bytes <= free_bytes ? 1 : free_bytes / each.bytes;
    added_ns -= part * each.saved_ns;
    free_bytes -= part * each.bytes;
    if (part < 1) break;
  }
  // Sums of doubles may be a little too large.
  const double error = static_cast<double>(exchanges.size() + needs.stage_count()) * 4 *
                       std::numeric_limits<double>::epsilon() *
                       static_cast<double>(needs.ideal_ns());
  return needs.ideal_ns() + static_cast<uint64_t>(std::max(0.0, added_ns - error));
}

}  // namespace vram::plan
