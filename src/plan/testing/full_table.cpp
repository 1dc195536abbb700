#include "plan/testing/full_table.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace vram::plan::testing {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max() / 4;

// cost[s][t][m], written as in the paper: gradients of the interval's end are counted in m.
class FullTable {
 public:
  FullTable(const Chain& chain, uint64_t bytes)
      : chain_(chain), count_(chain.stages.size()), bytes_(bytes), cost_(count_ * count_) {
    for (size_t length = 1; length <= count_; ++length) {
      for (size_t s = 0; s + length <= count_; ++s) fill(s, s + length - 1);
    }
  }
  uint64_t at(size_t s, size_t t, uint64_t m) const { return cost_[s * count_ + t][m]; }

 private:
  uint64_t parameter_gradients_after(size_t t) const {
    uint64_t bytes = 0;
    for (size_t i = t + 1; i < count_; ++i) bytes += chain_.stages[i].parameter_gradient_bytes;
    return bytes;
  }
  uint64_t gradients_at(size_t t) const {
    return t + 1 == count_ ? 0 : chain_.stages[t].gradient_bytes + parameter_gradients_after(t);
  }

  void fill(size_t s, size_t t) {
    auto& cells = cost_[s * count_ + t];
    cells.assign(bytes_ + 1, kNever);
    const uint64_t end = gradients_at(t);
    for (const Option& option : chain_.stages[s].options) {
      const uint64_t need = std::max({end + option.forward_peak_bytes,
                                      option.kept_bytes + option.offloaded_bytes + gradients_at(s),
                                      option.backward_peak_bytes + parameter_gradients_after(s)});
      for (uint64_t m = std::max(need, s < t ? option.kept_bytes : 0); m <= bytes_; ++m)
        cells[m] = std::min(cells[m],
                            option_ns(option) + (s < t ? at(s + 1, t, m - option.kept_bytes) : 0));
    }
    uint64_t sweep = 0;
    uint64_t sweep_ns = 0;
    for (size_t j = s; j < t; ++j) {
      const Stage& stage = chain_.stages[j];
      const uint64_t input = j == s ? 0 : chain_.stages[j - 1].output_bytes;
      sweep = std::max(sweep, input + stage.forward_peak_bytes);
      sweep_ns += stage.forward_ns;
      for (uint64_t m = std::max(end + sweep, stage.output_bytes); m <= bytes_; ++m)
        cells[m] =
            std::min(cells[m], sweep_ns + at(j + 1, t, m - stage.output_bytes) + at(s, j, m));
    }
  }

  const Chain& chain_;
  size_t count_;
  uint64_t bytes_;
  std::vector<std::vector<uint64_t>> cost_;
};

}  // namespace

std::optional<uint64_t> full_table_ns(const Chain& chain, uint64_t budget_bytes) {
  const uint64_t constant = chain.fixed_bytes + chain.input_bytes;
  if (budget_bytes < constant) return std::nullopt;
  const FullTable table(chain, budget_bytes - constant);
  const uint64_t time_ns = table.at(0, chain.stages.size() - 1, budget_bytes - constant);
  return time_ns >= kNever ? std::nullopt : std::optional(time_ns);
}

}  // namespace vram::plan::testing
