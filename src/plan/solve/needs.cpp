#include "plan/solve/needs.hpp"

#include <algorithm>

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

}  // namespace vram::plan
