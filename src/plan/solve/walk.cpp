#include "plan/solve/walk.hpp"

#include "base/result.hpp"
#include "plan/solve/emit.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

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

}  // namespace

Walked walk(const Needs& needs, const SmallestBytes& smallest, const RotorTable* table,
            uint64_t available_bytes, double scale) {
  return Walk(needs, smallest, table, scale).run(available_bytes);
}

}  // namespace vram::plan
