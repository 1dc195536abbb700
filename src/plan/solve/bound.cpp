#include "plan/solve/bound.hpp"

#include "plan/solve/needs.hpp"

#include <algorithm>
#include <limits>

namespace vram::plan {
namespace {

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
