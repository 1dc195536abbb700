#include "plan/testing/chains.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::plan::testing {
namespace {

Option random_option(Random& random, const ChainShape& shape, const Stage& stage,
                     uint64_t input_gradient_bytes) {
  const auto transient = [&] {
    return shape.has_transients ? pick(random, 0, shape.max_bytes) : 0;
  };
  Option option;
  option.kept_bytes = stage.output_bytes + pick(random, 0, 3 * shape.max_bytes);
  if (pick(random, 0, 3) == 0) option.offloaded_bytes = pick(random, 0, shape.max_bytes);
  option.forward_ns = stage.forward_ns;
  option.backward_ns = pick(random, 0, 2 * shape.max_ns);
  option.offload_ns = option.offloaded_bytes > 0 ? pick(random, 0, shape.max_ns) : 0;
  option.fetch_ns = option.offloaded_bytes > 0 ? pick(random, 0, shape.max_ns) : 0;
  option.forward_peak_bytes = option.kept_bytes + option.offloaded_bytes + transient();
  // The output may be freed before backward begins.
  const uint64_t freed = pick(random, 0, 1) == 0 ? stage.output_bytes : 0;
  const uint64_t gradients = input_gradient_bytes + stage.parameter_gradient_bytes;
  option.backward_peak_bytes =
      std::max(stage.gradient_bytes, gradients + option.kept_bytes - freed) + transient();
  return option;
}

constexpr char kAbsent = 0;
constexpr char kPlain = 1;
constexpr char kSaved = 2;  // with option 0; with option 1: 3; ...

// What is in memory, by stage; then how many stages still need their backward; then whether the
// last plain output was just computed.
using State = std::string;

class Search {
 public:
  Search(const Chain& chain, uint64_t budget_bytes, Freedom freedom)
      : chain_(chain),
        count_(chain.stages.size()),
        budget_bytes_(budget_bytes),
        is_persistent_(freedom == Freedom::kPersistent) {}

  std::optional<uint64_t> run() {
    State start(count_ + 2, kAbsent);
    start[count_] = static_cast<char>(count_);
    reach(start, 0, live_bytes(start));
    while (!queue_.empty()) {
      const auto [time_ns, state] = queue_.top();
      queue_.pop();
      if (time_ns > times_.at(state)) continue;
      if (left(state) == 0) return time_ns;
      expand(state, time_ns);
    }
    return std::nullopt;
  }

 private:
  size_t left(const State& state) const { return static_cast<size_t>(state[count_]); }
  const Option& option_of(const State& state, size_t i) const {
    return chain_.stages[i].options[static_cast<size_t>(state[i] - kSaved)];
  }
  uint64_t gradient_bytes(size_t backward_left) const {
    if (backward_left == count_) return 0;
    uint64_t bytes = backward_left == 0 ? chain_.input_gradient_bytes
                                        : chain_.stages[backward_left - 1].gradient_bytes;
    for (size_t i = backward_left; i < count_; ++i)
      bytes += chain_.stages[i].parameter_gradient_bytes;
    return bytes;
  }
  uint64_t live_bytes(const State& state) const {
    uint64_t bytes = chain_.fixed_bytes + chain_.input_bytes + gradient_bytes(left(state));
    for (size_t i = 0; i < count_; ++i) {
      if (state[i] == kPlain) bytes += chain_.stages[i].output_bytes;
      if (state[i] >= kSaved) bytes += option_of(state, i).kept_bytes;
    }
    return bytes;
  }

  void reach(const State& state, uint64_t time_ns, uint64_t peak_bytes) {
    if (peak_bytes > budget_bytes_) return;
    const auto [known, is_new] = times_.try_emplace(state, time_ns);
    if (!is_new && known->second <= time_ns) return;
    known->second = time_ns;
    queue_.emplace(time_ns, state);
  }

  void expand(const State& state, uint64_t time_ns) {
    const size_t last = left(state) - 1;
    const bool can_go_back = state[last] >= kSaved && (last == 0 || state[last - 1] != kAbsent);
    if (can_go_back) backward(state, time_ns);
    if (is_persistent_) {
      if (!can_go_back) persistent_forward(state, time_ns);
      return;
    }
    for (size_t i = 0; i < left(state); ++i) {
      if (state[i] == kAbsent && (i == 0 || state[i - 1] != kAbsent))
        forward(state, i, false, time_ns);
    }
    for (size_t i = 0; i < count_; ++i) {
      if (state[i] == kAbsent) continue;
      State next = state;
      next[i] = kAbsent;
      reach(next, time_ns, live_bytes(next));
    }
  }

  // Continues from the last output that is in memory.
  void persistent_forward(const State& state, uint64_t time_ns) {
    size_t i = left(state);
    while (i > 0 && state[i - 1] == kAbsent) --i;
    if (i < left(state)) forward(state, i, state[count_ + 1] != 0, time_ns);
  }

  void forward(const State& state, size_t i, bool may_free_input, uint64_t time_ns) {
    const Stage& stage = chain_.stages[i];
    const uint64_t live = live_bytes(state);
    State next = state;
    next[i] = kPlain;
    next[count_ + 1] = is_persistent_;
    reach(next, time_ns + stage.forward_ns, live + stage.forward_peak_bytes);
    if (may_free_input) {
      next[i - 1] = kAbsent;
      reach(next, time_ns + stage.forward_ns, live + stage.forward_peak_bytes);
      next[i - 1] = state[i - 1];
    }
    next[count_ + 1] = 0;
    for (size_t number = 0; number < stage.options.size(); ++number) {
      const Option& option = stage.options[number];
      next[i] = static_cast<char>(kSaved + static_cast<char>(number));
      reach(next, time_ns + option.forward_ns + option.offload_ns,
            live + option.forward_peak_bytes);
    }
  }

  void backward(const State& state, uint64_t time_ns) {
    const size_t i = left(state) - 1;
    const Option& option = option_of(state, i);
    const uint64_t live = live_bytes(state);
    State next = state;
    next[i] = kAbsent;
    next[count_] = static_cast<char>(i);
    if (is_persistent_ && i > 0 && next[i - 1] == kPlain) next[i - 1] = kAbsent;
    const uint64_t own =
        option.kept_bytes + (i + 1 == count_ ? 0 : chain_.stages[i].gradient_bytes);
    reach(next, time_ns + option.backward_ns + option.fetch_ns,
          std::max(live + option.offloaded_bytes, live - own + option.backward_peak_bytes));
  }

  using Reached = std::pair<uint64_t, State>;

  const Chain& chain_;
  size_t count_;
  uint64_t budget_bytes_;
  bool is_persistent_;
  std::unordered_map<State, uint64_t> times_;
  std::priority_queue<Reached, std::vector<Reached>, std::greater<>> queue_;
};

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

uint64_t pick(Random& random, uint64_t low, uint64_t high) {
  return low + random() % (high - low + 1);
}

Chain random_chain(Random& random, const ChainShape& shape) {
  Chain chain;
  chain.fixed_bytes = pick(random, 0, shape.max_bytes);
  chain.input_bytes = pick(random, 0, shape.max_bytes);
  for (uint32_t i = 0; i < shape.stages; ++i) {
    Stage& stage = chain.stages.emplace_back();
    stage.output_bytes = pick(random, 0, shape.max_bytes);
    if (shape.has_gradients) {
      stage.gradient_bytes = pick(random, 0, 1) == 0 ? stage.output_bytes : 0;
      stage.parameter_gradient_bytes = pick(random, 0, shape.max_bytes / 2);
    }
    stage.forward_ns = pick(random, 0, shape.max_ns);
    stage.forward_peak_bytes =
        stage.output_bytes + (shape.has_transients ? pick(random, 0, shape.max_bytes) : 0);
    const uint64_t options = pick(random, 1, shape.max_options);
    const uint64_t input_gradient_bytes = i == 0 ? 0 : chain.stages[i - 1].gradient_bytes;
    for (uint64_t number = 0; number < options; ++number)
      stage.options.push_back(random_option(random, shape, stage, input_gradient_bytes));
  }
  return chain;
}

Chain equal_chain(uint32_t stages, uint64_t output_bytes, uint64_t kept_bytes) {
  Chain chain;
  for (uint32_t i = 0; i < stages; ++i) {
    Stage& stage = chain.stages.emplace_back();
    stage.output_bytes = output_bytes;
    stage.forward_ns = 1;
    stage.forward_peak_bytes = output_bytes;
    add_option(stage, kept_bytes, 1, 2);
  }
  return chain;
}

void add_option(Stage& stage, uint64_t kept_bytes, uint64_t forward_ns, uint64_t backward_ns) {
  Option option;
  option.name = "option " + std::to_string(stage.options.size());
  option.kept_bytes = kept_bytes;
  option.forward_ns = forward_ns;
  option.backward_ns = backward_ns;
  option.forward_peak_bytes = kept_bytes;
  option.backward_peak_bytes = kept_bytes;
  stage.options.push_back(option);
}

std::optional<uint64_t> fastest_ns(const Chain& chain, uint64_t budget_bytes, Freedom freedom) {
  return Search(chain, budget_bytes, freedom).run();
}

std::optional<uint64_t> full_table_ns(const Chain& chain, uint64_t budget_bytes) {
  const uint64_t constant = chain.fixed_bytes + chain.input_bytes;
  if (budget_bytes < constant) return std::nullopt;
  const FullTable table(chain, budget_bytes - constant);
  const uint64_t time_ns = table.at(0, chain.stages.size() - 1, budget_bytes - constant);
  return time_ns >= kNever ? std::nullopt : std::optional(time_ns);
}

}  // namespace vram::plan::testing
