#include "plan/block.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace vram::plan {
namespace {

constexpr size_t kMaxTriedAll = 14;

using OpSet = std::vector<bool>;  // by operation

Result<> check_block(const Block& block) {
  if (block.ops.empty() || block.ops.size() > kMaxBlockOps)
    return fail(Code::kBadInput, "the block has {} operations; expected 1 to {}", block.ops.size(),
                kMaxBlockOps);
  uint64_t bytes_left = kMaxStageBytes;
  uint64_t time_left_ns = kMaxDurationNs;
  for (size_t i = 0; i < block.ops.size(); ++i) {
    const BlockOp& op = block.ops[i];
    if (op.output_bytes > bytes_left || op.forward_ns > time_left_ns)
      return fail(Code::kTooLarge,
                  "operation {} ({}): the outputs of the block are above {} bytes, or it takes "
                  "longer than {} ns",
                  i, printable(op.name), kMaxStageBytes, kMaxDurationNs);
    bytes_left -= op.output_bytes;
    time_left_ns -= op.forward_ns;
    for (const uint32_t input : op.inputs) {
      if (input >= i && input != kBlockInput)
        return fail(Code::kBadInput,
                    "operation {} ({}) reads operation {}; expected an earlier one", i,
                    printable(op.name), input);
    }
  }
  return {};
}

class BlockSolver {
 public:
  explicit BlockSolver(const Block& block) : block_(block), count_(block.ops.size()) {}

  std::vector<Option> solve() const {
    std::vector<Option> found{*option_for(all_kept())};
    const std::vector<size_t> candidates = to_decide();
    if (candidates.size() <= kMaxTriedAll) {
      try_all(candidates, found);
    } else {
      give_up_one_by_one(candidates, found);
    }
    return found;
  }

 private:
  OpSet all_kept() const {
    OpSet kept(count_);
    for (size_t i = 0; i < count_; ++i) kept[i] = block_.ops[i].is_saved || i + 1 == count_;
    return kept;
  }
  std::vector<size_t> to_decide() const {
    std::vector<size_t> candidates;
    for (size_t i = 0; i + 1 < count_; ++i) {
      const BlockOp& op = block_.ops[i];
      if (op.is_saved && op.is_repeatable && op.output_bytes > 0) candidates.push_back(i);
    }
    return candidates;
  }

  void try_all(const std::vector<size_t>& candidates, std::vector<Option>& found) const {
    for (size_t choice = 1; choice < size_t{1} << candidates.size(); ++choice) {
      OpSet kept = all_kept();
      for (size_t bit = 0; bit < candidates.size(); ++bit) {
        if ((choice >> bit & 1) != 0) kept[candidates[bit]] = false;
      }
      if (auto option = option_for(kept)) found.push_back(std::move(*option));
    }
  }

  void give_up_one_by_one(std::vector<size_t> candidates, std::vector<Option>& found) const {
    OpSet kept = all_kept();
    while (!candidates.empty()) {
      const uint64_t before_ns = found.back().backward_ns;
      std::optional<Option> best;
      double best_cost = 0;
      size_t best_index = 0;
      for (size_t i = 0; i < candidates.size(); ++i) {
        kept[candidates[i]] = false;
        auto option = option_for(kept);
        kept[candidates[i]] = true;
        if (!option) continue;
        const double cost = static_cast<double>(option->backward_ns - before_ns) /
                            static_cast<double>(block_.ops[candidates[i]].output_bytes);
        if (best && cost >= best_cost) continue;
        std::tie(best, best_cost, best_index) = std::tuple(std::move(option), cost, i);
      }
      if (!best) return;
      kept[candidates[best_index]] = false;
      candidates.erase(candidates.begin() + static_cast<ptrdiff_t>(best_index));
      found.push_back(std::move(*best));
    }
  }

  // What must run again: what backward reads and was not kept, and what that reads. None if it
  // contains an operation that must not run twice.
  std::optional<OpSet> run_again(const OpSet& kept) const {
    OpSet again(count_);
    for (size_t i = count_; i-- > 0;) {
      const BlockOp& op = block_.ops[i];
      again[i] = !kept[i] && (again[i] || op.is_saved);
      if (!again[i]) continue;
      if (!op.is_repeatable) return std::nullopt;
      for (const uint32_t input : op.inputs) {
        if (input != kBlockInput) again[input] = true;
      }
    }
    return again;
  }

  // The peak of running these operations, where `stays` remains and others are freed after the last
  // operation that reads them.
  uint64_t peak_of(const OpSet& run, const OpSet& stays, uint64_t live_bytes) const {
    std::vector<size_t> last_reader(count_, 0);
    for (size_t i = 0; i < count_; ++i) {
      if (!run[i]) continue;
      last_reader[i] = i;
      for (const uint32_t input : block_.ops[i].inputs) {
        if (input != kBlockInput) last_reader[input] = i;
      }
    }
    uint64_t peak_bytes = live_bytes;
    for (size_t i = 0; i < count_; ++i) {
      if (!run[i]) continue;
      live_bytes += block_.ops[i].output_bytes;
      peak_bytes = std::max(peak_bytes, live_bytes);
      for (size_t earlier = 0; earlier <= i; ++earlier) {
        if (run[earlier] && !stays[earlier] && last_reader[earlier] == i)
          live_bytes -= block_.ops[earlier].output_bytes;
      }
    }
    return peak_bytes;
  }

  std::optional<Option> option_for(const OpSet& kept) const {
    const std::optional<OpSet> again = run_again(kept);
    if (!again) return std::nullopt;
    Option option;
    option.backward_ns = block_.backward_ns;
    uint64_t saved_bytes = 0;
    OpSet saved(count_);
    option.op_count = static_cast<uint32_t>(count_);
    for (size_t i = 0; i < count_; ++i) {
      const BlockOp& op = block_.ops[i];
      option.forward_ns += op.forward_ns;
      if (kept[i]) option.kept_bytes += op.output_bytes;
      if ((*again)[i]) option.backward_ns += op.forward_ns;
      saved[i] = kept[i] || op.is_saved;
      if (saved[i]) saved_bytes += op.output_bytes;
      option.again_count += (*again)[i];
    }
    option.name = option.again_count == 0 ? "keep all"
                                          : fmt::format("recompute {} of {} operations",
                                                        option.again_count, option.op_count);
    option.forward_peak_bytes = peak_of(OpSet(count_, true), kept, 0);
    option.backward_peak_bytes =
        std::max(peak_of(*again, saved, option.kept_bytes + block_.gradient_bytes),
                 saved_bytes + block_.gradient_bytes + block_.input_gradient_bytes +
                     block_.parameter_gradient_bytes + block_.backward_transient_bytes);
    return option;
  }

  const Block& block_;
  size_t count_;
};

// By falling kept bytes; each one faster than all that keep less.
std::vector<Option> pareto(std::vector<Option> options) {
  std::ranges::stable_sort(options, {}, [](const Option& option) {
    return std::tuple(option.kept_bytes, option_ns(option), option.backward_peak_bytes);
  });
  std::vector<Option> front;
  for (Option& each : options) {
    if (front.empty() || option_ns(each) < option_ns(front.back()))
      front.push_back(std::move(each));
  }
  std::ranges::reverse(front);
  return front;
}

// Both ends, and between them the fastest options at about equal distances in kept bytes.
std::vector<Option> thinned(std::vector<Option> front, size_t max_options) {
  if (front.size() <= max_options) return front;
  const uint64_t most = front.front().kept_bytes;
  const uint64_t least = front.back().kept_bytes;
  std::vector<Option> chosen;
  size_t next = 0;
  for (size_t i = 0; i < max_options; ++i) {
    const uint64_t target = most - (most - least) / (max_options - 1) * i;
    if (i + 1 == max_options) next = front.size() - 1;
    while (next + 1 < front.size() && front[next].kept_bytes > target) ++next;
    if (chosen.empty() || chosen.back().kept_bytes > front[next].kept_bytes)
      chosen.push_back(front[next]);
  }
  return chosen;
}

}  // namespace

Result<std::vector<Option>> block_options(const Block& block, size_t max_options) {
  if (Result<> valid = check_block(block); !valid) return tl::unexpected(std::move(valid.error()));
  return thinned(pareto(BlockSolver(block).solve()),
                 std::clamp<size_t>(max_options, 2, kMaxOptions));
}

}  // namespace vram::plan
