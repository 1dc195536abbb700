// Repetition: steps found in the allocations themselves, for recordings without annotations.
// Gradients and optimizer temporaries have the same sizes in the same order in every step even
// where the activations change shape, so the sizes that recur all through the recording are kept,
// runs of kRun of them are hashed, and the count of occurrences whose runs are most, come at
// regular distances and cover most of the recording may be the number of steps.
#pragma once

#include "base/pod_vector.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

// One allocation as the finder sees it.
struct SizedAllocation {
  uint64_t size_bytes = 0;
  uint64_t live_bytes = 0;     // after it
  bool is_long_lived = false;  // lives through a third of the recording: weights and optimizer
                               // state, not a step's own
};

struct Repetition {
  // allocation numbers, one in each step, ascending; empty: nothing repeats
  std::vector<uint32_t> anchors;
  uint64_t distinct_runs = 0;     // different runs that occur once a step
  uint32_t typical_distance = 0;  // allocations from anchor to anchor, median
  double coverage = 0;            // share of the allocations that lie in regular distances
  double score = 0;               // how well it explains the recording; for comparisons
  bool swings = false;  // live bytes move as they do between the others: else a loop inside a step
};

// Repetitions at different distances, best first: a program's loops lie inside one another (layers
// in micro-batches in steps), and which of them makes steps does not show in sizes (evidence.hpp).
// Linear in the allocations but for a sort of at most a few hundred thousand sampled hashes.
[[nodiscard]] std::vector<Repetition> find_repetitions(
    std::span<const SizedAllocation> allocations);

}  // namespace vram::explain
