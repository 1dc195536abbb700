#include "plan/solve/rotor.hpp"

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "plan/solve/needs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace vram::plan {
namespace {

// What remains to be written: reverse [first, last], or one operation after it.
struct Task {
  enum class Kind : uint8_t { kReverse, kDiscard, kBackward };
  Kind kind = Kind::kReverse;
  uint32_t first = 0;
  uint32_t last = 0;  // of kReverse; the option of kBackward
  uint64_t bytes = 0;
};

// How [s, t] begins: saves s with an option, or sweeps over [s, choice].
struct Branch {
  bool is_sweep = false;
  uint32_t choice = 0;  // the option, or the sweep's last stage
  float added_ns = std::numeric_limits<float>::infinity();
  uint64_t needed_bytes = std::numeric_limits<uint64_t>::max();
};

class Walk {
 public:
  Walk(const Needs& needs, const SmallestBytes& smallest, const RotorTable* table, double scale)
      : needs_(needs), smallest_(smallest), table_(table), scale_(scale) {}

  Walked run(uint64_t available_bytes) {
    tasks_.push_back({Task::Kind::kReverse, 0, needs_.stage_count() - 1, available_bytes});
    while (!tasks_.empty()) {
      const Task task = tasks_.back();
      tasks_.pop_back();
      switch (task.kind) {
        case Task::Kind::kReverse:
          reverse(task);
          break;
        case Task::Kind::kDiscard:
          walked_.operations.push_back({OpKind::kDiscard, task.first, 0});
          break;
        case Task::Kind::kBackward:
          emit_backward(walked_.operations, needs_.chain(), task.first, task.last);
          break;
      }
    }
    return std::move(walked_);
  }

 private:
  void reverse(const Task& task) {
    const auto [s, t, bytes] = std::tuple(task.first, task.last, task.bytes);
    const Branch branch = best_branch(s, t, bytes);
    VRAM_CHECK(branch.needed_bytes <= bytes);
    if (branch.is_sweep) {
      const uint32_t j = branch.choice;
      emit_sweep(walked_.operations, s, j);
      walked_.longest_sweep = std::max(walked_.longest_sweep, j - s + 1);
      tasks_.push_back({Task::Kind::kReverse, s, j, bytes});
      tasks_.push_back({Task::Kind::kDiscard, j, 0, 0});
      tasks_.push_back({Task::Kind::kReverse, j + 1, t, bytes - needs_.stage(j).output_bytes});
      return;
    }
    emit_save(walked_.operations, needs_.chain(), s, branch.choice);
    tasks_.push_back({Task::Kind::kBackward, s, branch.choice, 0});
    if (s < t)
      tasks_.push_back(
          {Task::Kind::kReverse, s + 1, t, bytes - needs_.option(s, branch.choice).kept_bytes});
  }

  Branch best_branch(uint32_t s, uint32_t t, uint64_t bytes) const {
    Branch best;
    const auto consider = [&](const Branch& branch) {
      const bool fits = branch.needed_bytes <= bytes;
      const bool best_fits = best.needed_bytes <= bytes;
      if (std::tuple(!fits, branch.added_ns, branch.needed_bytes) <
          std::tuple(!best_fits, best.added_ns, best.needed_bytes))
        best = branch;
    };
    for (uint32_t option = 0; option < needs_.option_count(s); ++option)
      consider(save(s, option, t, bytes));
    uint64_t sweep = 0;
    float swept_ns = 0;
    for (uint32_t j = s; j < s + smallest_.longest_sweep(s, t); ++j) {
      sweep = std::max(sweep, needs_.sweep_bytes(s, j));
      swept_ns += static_cast<float>(needs_.stage(j).forward_ns);
      const uint64_t output = needs_.stage(j).output_bytes;
      Branch branch{.is_sweep = true, .choice = j};
      branch.needed_bytes = std::max(
          {needs_.gradient_bytes(t) + sweep, output + smallest_.of(j + 1, t), smallest_.of(s, j)});
      if (branch.needed_bytes <= bytes)
        branch.added_ns = swept_ns + added_ns(j + 1, t, bytes - output) + added_ns(s, j, bytes);
      consider(branch);
    }
    return best;
  }

  Branch save(uint32_t s, uint32_t option, uint32_t t, uint64_t bytes) const {
    const uint64_t kept = needs_.option(s, option).kept_bytes;
    Branch branch{.choice = option, .needed_bytes = needs_.save_bytes(s, option, t)};
    if (s < t) branch.needed_bytes = std::max(branch.needed_bytes, kept + smallest_.of(s + 1, t));
    if (branch.needed_bytes <= bytes)
      branch.added_ns = static_cast<float>(needs_.extra_ns(s, option)) +
                        (s < t ? added_ns(s + 1, t, bytes - kept) : 0);
    return branch;
  }

  float added_ns(uint32_t s, uint32_t t, uint64_t bytes) const {
    if (table_ == nullptr) return std::numeric_limits<float>::infinity();
    if (scale_ != 1) bytes = static_cast<uint64_t>(static_cast<double>(bytes) * scale_);
    return table_->added_ns(s, t, bytes / table_->grid().unit_bytes);
  }

  const Needs& needs_;
  const SmallestBytes& smallest_;
  const RotorTable* table_;
  double scale_;
  std::vector<Task> tasks_;
  Walked walked_;
};

constexpr uint32_t kFirstWindow = 32;
constexpr int kScaleSteps = 4;
constexpr double kScaleStep = 0.001;
constexpr uint32_t kMinSlots = 16;
constexpr uint32_t kWholeChain = 64;  // chains up to this length have no window

// The greatest common divisor of all sizes.
uint64_t common_unit(const Chain& chain) {
  uint64_t unit = std::gcd(chain.input_gradient_bytes, uint64_t{0});
  for (const Stage& stage : chain.stages) {
    for (const uint64_t bytes : {stage.output_bytes, stage.gradient_bytes,
                                 stage.parameter_gradient_bytes, stage.forward_peak_bytes})
      unit = std::gcd(unit, bytes);
    for (const Option& option : stage.options) {
      for (const uint64_t bytes : {option.kept_bytes, option.forward_peak_bytes,
                                   option.backward_peak_bytes, option.offloaded_bytes})
        unit = std::gcd(unit, bytes);
    }
  }
  return std::max<uint64_t>(unit, 1);
}

// What keeping everything needs; more is of no use.
uint64_t useful_bytes(const Needs& needs) {
  const uint32_t last = needs.stage_count() - 1;
  uint64_t useful = 0;
  for (uint32_t s = needs.stage_count(); s-- > 0;)
    useful = std::max(needs.save_bytes(s, needs.fastest(s), last),
                      needs.option(s, needs.fastest(s)).kept_bytes + useful);
  return useful;
}

Grid make_grid(uint64_t bytes, uint64_t unit, uint32_t slots) {
  const uint64_t unit_bytes = bytes / unit <= slots ? unit : bytes / slots + 1;
  return {.unit_bytes = unit_bytes, .slots = static_cast<uint32_t>(bytes / unit_bytes)};
}

// Floats add up to a little more or less than the true sums.
uint64_t safely_below(float added_ns, uint32_t stages) {
  const double error = static_cast<double>(stages) * 4 * std::numeric_limits<float>::epsilon();
  const double exact = static_cast<double>(added_ns);
  const bool is_whole = exact < (1 << std::numeric_limits<float>::digits);
  return static_cast<uint64_t>(is_whole ? exact : exact * std::max(0.0, 1 - error));
}

struct Best {
  Schedule schedule;
  uint32_t longest_sweep = 0;
};

class Rotor {
 public:
  Rotor(const Chain& chain, uint64_t available_bytes, const RotorSettings& settings)
      : needs_(chain),
        settings_(settings),
        available_bytes_(std::min(available_bytes, useful_bytes(needs_))),
        common_unit_(common_unit(chain)),
        window_(settings.window != 0                  ? settings.window
                : needs_.stage_count() <= kWholeChain ? needs_.stage_count()
                                                      : kFirstWindow),
        smallest_(needs_, window_) {
    window_ = smallest_.window();
  }

  // False if no schedule fits.
  bool find_window() {
    while (smallest_.of_chain() > available_bytes_) {
      if (is_whole()) return false;
      set_window(window_ * 2);
    }
    return true;
  }

  // Requires that find_window() found one.
  RotorSchedule solve() {
    compute_table();
    Best best = best_walk();
    while (settings_.window == 0 && !is_whole() && best.longest_sweep * 2 > window_ && table_ &&
           table_->widen(std::min(window_ * 2, needs_.stage_count()), settings_.max_table_bytes,
                         settings_.max_table_updates)) {
      set_window(table_->window());
      best = best_walk();
    }
    RotorSchedule found;
    found.window = window_;
    found.schedule = std::move(best.schedule);
    if (table_) {
      found.slot_bytes = table_->grid().unit_bytes;
      found.table_bytes = table_->size_bytes();
      found.sizes_are_exact = found.slot_bytes == common_unit_;
      if (is_whole()) found.lower_bound_ns = lower_bound(table_->grid());
    }
    return found;
  }

 private:
  bool is_whole() const { return window_ + 1 >= needs_.stage_count(); }
  void set_window(uint32_t window) {
    smallest_ = SmallestBytes(needs_, window);
    window_ = smallest_.window();
  }
  // With as many slots as the limits permit; no table if they permit hardly any.
  void compute_table() {
    for (uint32_t slots = settings_.slots; slots >= kMinSlots; slots /= 2) {
      if (compute(make_grid(available_bytes_, common_unit_, slots))) return;
    }
  }
  bool compute(const Grid& grid) {
    table_.emplace(needs_, grid);
    if (table_->widen(window_, settings_.max_table_bytes, settings_.max_table_updates)) return true;
    table_.reset();
    return false;
  }
  // The fastest of a few walks, unless one is certain to be the fastest.
  Best best_walk() const {
    Best best = walk_scaled(1);
    if (!table_ || table_->grid().unit_bytes == common_unit_) return best;
    for (int step = 1; step <= kScaleSteps; ++step) {
      for (const int direction : {-1, 1}) {
        Best other = walk_scaled(1 + direction * step * kScaleStep);
        if (other.schedule.cost.time_ns < best.schedule.cost.time_ns) best = std::move(other);
      }
    }
    return best;
  }
  Best walk_scaled(double scale) const {
    Walked walked = walk(needs_, smallest_, table_ ? &*table_ : nullptr, available_bytes_, scale);
    Result<Schedule> schedule = measured(needs_.chain(), "rotor", std::move(walked.operations));
    VRAM_CHECK(schedule.has_value());
    return {std::move(*schedule), walked.longest_sweep};
  }

  // With all sizes rounded down, every schedule that fits in bytes fits in slots.
  uint64_t lower_bound(Grid grid) {
    if (grid.unit_bytes != common_unit_) {
      grid.rounding = Rounding::kDown;
      if (!compute(grid)) return needs_.ideal_ns();
    }
    const float added_ns = table_->added_ns(0, needs_.stage_count() - 1, grid.slots);
    return needs_.ideal_ns() + safely_below(added_ns, needs_.stage_count());
  }

  Needs needs_;
  RotorSettings settings_;
  uint64_t available_bytes_;
  uint64_t common_unit_;
  uint32_t window_;
  SmallestBytes smallest_;
  std::optional<RotorTable> table_;
};

}  // namespace

Walked walk(const Needs& needs, const SmallestBytes& smallest, const RotorTable* table,
            uint64_t available_bytes, double scale) {
  return Walk(needs, smallest, table, scale).run(available_bytes);
}

uint64_t smallest_budget_bytes(const Chain& chain) {
  const Needs needs(chain);
  return needs.constant_bytes() + SmallestBytes(needs, needs.stage_count()).of_chain();
}

Result<RotorSchedule> rotor(const Chain& chain, uint64_t budget_bytes,
                            const RotorSettings& settings) {
  const uint64_t constant_bytes = chain.fixed_bytes + chain.input_bytes;
  Rotor solver(chain, budget_bytes - std::min(budget_bytes, constant_bytes), settings);
  if (budget_bytes < constant_bytes || !solver.find_window()) {
    const uint64_t smallest = smallest_budget_bytes(chain);
    return fail(Code::kTooLarge,
                "no schedule fits into {} ({} bytes); the smallest budget for this chain is {} ({} "
                "bytes)",
                format_bytes(budget_bytes), budget_bytes, format_bytes(smallest), smallest);
  }
  RotorSchedule found = solver.solve();
  VRAM_CHECK(found.schedule.cost.peak_bytes <= budget_bytes);
  return found;
}

}  // namespace vram::plan
