#include "plan/solve/needs.hpp"

#include "base/bytes.hpp"
#include "plan/verify.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace vram::plan {

Needs::Needs(const Chain& chain)
    : chain_(chain), gradients_(chain.stages.size()), parameter_bytes_(chain.stages.size()) {
  uint64_t later_bytes = 0;
  for (size_t i = chain.stages.size(); i-- > 0;) {
    const Stage& each = chain.stages[i];
    parameter_bytes_[i] = later_bytes;
    gradients_[i] = i + 1 == chain.stages.size() ? 0 : each.gradient_bytes + later_bytes;
    later_bytes += each.parameter_gradient_bytes;
  }
  for (const Stage& each : chain.stages) {
    fastest_.push_back(fastest_option(each));
    ideal_ns_ += option_ns(each.options[fastest_.back()]);
  }
}

uint64_t Needs::save_bytes(uint32_t s, uint32_t number, uint32_t t) const {
  return std::max(gradients_[t] + save_forward_bytes(s, number), save_backward_bytes(s, number));
}

uint64_t Needs::save_forward_bytes(uint32_t s, uint32_t number) const {
  return option(s, number).forward_peak_bytes;
}

uint64_t Needs::save_backward_bytes(uint32_t s, uint32_t number) const {
  const Option& chosen = option(s, number);
  return std::max(chosen.kept_bytes + chosen.offloaded_bytes + gradients_[s],
                  chosen.backward_peak_bytes + parameter_bytes_[s]);
}

uint64_t Needs::sweep_bytes(uint32_t s, uint32_t k) const {
  return stage(k).forward_peak_bytes + (k == s ? 0 : stage(k - 1).output_bytes);
}

uint64_t Needs::extra_ns(uint32_t s, uint32_t number) const {
  return option_ns(option(s, number)) - option_ns(option(s, fastest_[s]));
}

SmallestBytes::SmallestBytes(const Needs& needs, uint32_t window)
    : count_(needs.stage_count()),
      window_(std::clamp<uint32_t>(window, 1, count_)),
      intervals_(size_t{count_} * window_),
      by_last_(size_t{count_} * window_),
      suffixes_(count_) {
  for (uint32_t s = count_; s-- > 0;) {
    // Every part of an interval that begins at s begins there and is shorter, or begins later.
    for (uint32_t t = s; t + 1 < count_ && t - s < window_; ++t) set(s, t, compute(needs, s, t));
    suffixes_[s] = compute(needs, s, count_ - 1);
  }
}

void SmallestBytes::set(uint32_t s, uint32_t t, uint64_t bytes) {
  intervals_[size_t{s} * window_ + (t - s)] = bytes;
  by_last_[size_t{t} * window_ + (t - s)] = bytes;
}

uint64_t SmallestBytes::compute(const Needs& needs, uint32_t s, uint32_t t) const {
  uint64_t smallest = std::numeric_limits<uint64_t>::max();
  for (uint32_t option = 0; option < needs.option_count(s); ++option) {
    const uint64_t rest = s == t ? 0 : needs.option(s, option).kept_bytes + of(s + 1, t);
    smallest = std::min(smallest, std::max(needs.save_bytes(s, option, t), rest));
  }
  // Of [j + 1, t], for j rising; of [s, j].
  const uint64_t* right =
      t + 1 == count_ ? &suffixes_[s] : &by_last_[size_t{t} * window_ + (t - s)];
  const ptrdiff_t to_next = t + 1 == count_ ? 1 : -1;
  const uint64_t* left = &intervals_[size_t{s} * window_];
  uint64_t sweep = 0;
  for (uint32_t j = s; j < s + longest_sweep(s, t); ++j, ++left) {
    right += to_next;
    sweep = std::max(sweep, needs.sweep_bytes(s, j));
    const uint64_t needed =
        std::max({needs.gradient_bytes(t) + sweep, needs.stage(j).output_bytes + *right, *left});
    smallest = std::min(smallest, needed);
  }
  return smallest;
}

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
