#include "replay/capacity.hpp"

#include "base/bytes.hpp"
#include "replay/program.hpp"
#include "replay/segment_source.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::replay {
namespace {

constexpr uint64_t kStepBytes = 2 * kMiB;

// Capacities are in steps. One that suffices completes, and so does the next.
class Search {
 public:
  Search(const Program& program, const Peer& peer, const AllocatorSpec& spec,
         const ReplayOptions& options)
      : program_(program), peer_(peer), spec_(spec), options_(options) {
    options_.curve_slices = 0;
    options_.capacity_is_fraction = false;
  }

  std::optional<MinCapacity> find() {
    options_.capacity_bytes.reset();
    const ReplayResult free_run = run(program_, peer_, spec_, options_);
    if (!free_run.completed) return std::nullopt;
    // Fewer steps cannot hold what lives, whatever the allocator does.
    const uint64_t least = std::max<uint64_t>(steps_for(peak_live_bytes(program_)), 1);
    uint64_t found = std::max(steps_for(free_run.peak_reserved_bytes), least);
    if (!raise(found)) return std::nullopt;
    bisect(least - 1, found);
    search_below(least - 1, found);
    return MinCapacity{found * kStepBytes, retries_at(found).value_or(0)};
  }

 private:
  static uint64_t steps_for(uint64_t bytes) { return round_up(bytes, kStepBytes) / kStepBytes; }

  // None where it ends in an OOM.
  std::optional<uint64_t> retries_at(uint64_t steps) {
    const auto known = retries_.find(steps);
    if (known != retries_.end()) return known->second;
    options_.capacity_bytes = steps * kStepBytes;
    const ReplayResult result = run(program_, peer_, spec_, options_);
    return retries_[steps] = result.completed ? std::optional(result.retries) : std::nullopt;
  }
  bool suffices(uint64_t steps) {
    return retries_at(steps).has_value() && retries_at(steps + 1).has_value();
  }

  // An unlimited run's peak may not suffice as a limit: more than what is taken is compared with
  // it, or only a share of it is to be had (per_process_memory_fraction).
  bool raise(uint64_t& steps) {
    for (int i = 0; i < 8; ++i) {
      if (suffices(steps)) return true;
      steps += steps / 16 + 10;
    }
    for (; steps <= kMaxDeviceBytes / kStepBytes; steps *= 2) {
      if (suffices(steps)) return true;
    }
    return false;
  }
  // Down to a step that suffices while the next smaller one does not.
  void bisect(uint64_t fails, uint64_t& found) {
    while (found - fails > 1) {
      const uint64_t middle = fails + (found - fails) / 2;
      (suffices(middle) ? found : fails) = middle;
    }
  }
  // Ever farther below; where a step suffices, the search continues from there.
  void search_below(uint64_t fails, uint64_t& found) {
    for (uint64_t down = 2; found > fails + down; down *= 2) {
      const uint64_t probe = found - down;
      if (!suffices(probe)) continue;
      found = probe;
      bisect(fails, found);
      down = 1;
    }
  }

  const Program& program_;
  const Peer& peer_;
  const AllocatorSpec& spec_;
  ReplayOptions options_;
  std::unordered_map<uint64_t, std::optional<uint64_t>> retries_;  // by steps
};

}  // namespace

std::optional<MinCapacity> find_min_capacity(const Program& program, const Peer& peer,
                                             const AllocatorSpec& spec,
                                             const ReplayOptions& options) {
  return Search(program, peer, spec, options).find();
}

namespace {

// The allocation that ends a choice, with the least of its requests.
Op least_of(const Program& program, const Choice& choice) {
  const auto requests =
      std::span(program.ops).subspan(choice.first_op, choice.refused_ops + size_t{1});
  Op op = requests.back();
  op.size_bytes = std::ranges::min_element(requests, {}, &Op::size_bytes)->size_bytes;
  return op;
}

}  // namespace

uint64_t peak_live_bytes(const Program& program) {
  std::vector<uint64_t> sizes(program.block_count, 0);
  uint64_t live = 0;
  uint64_t peak = 0;
  const size_t caught_until = ops_until_last_allocation(program);
  auto choice = program.choices.begin();
  for (size_t i = 0; i < program.ops.size(); ++i) {
    Op op = program.ops[i];
    if (choice != program.choices.end() && choice->first_op == i) {
      op = least_of(program, *choice);
      i += choice++->refused_ops;
    }
    switch (op.kind) {
      case OpKind::kAlloc:
        sizes[op.block] = op.size_bytes;
        live += op.size_bytes;
        peak = std::max(peak, live);
        break;
      case OpKind::kRefused:
        if (i >= caught_until) peak = std::max(peak, live + op.size_bytes);
        break;
      case OpKind::kFree:
      case OpKind::kFreeLater:
        live -= std::exchange(sizes[op.block], 0);
        break;
      case OpKind::kComplete:
      case OpKind::kEmptyCache:
      case OpKind::kGivenBack:
        break;
    }
  }
  return peak;
}

}  // namespace vram::replay
