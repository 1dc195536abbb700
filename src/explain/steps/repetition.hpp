// Repetition: finds steps from the allocations, for recordings without annotations. Gradients and
// optimizer temporaries have the same sizes in the same order in every step, even if the
// activations change shape. So the sizes that recur throughout the recording are kept, runs of kRun
// of them are hashed, and the hashes with the most runs at regular distances that cover most of the
// recording give the number of steps.
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
  uint64_t distinct_runs = 0;     // different runs that occur once in each step
  uint32_t typical_distance = 0;  // allocations from anchor to anchor, median
  double coverage = 0;            // share of the allocations at regular distances
  double score = 0;               // how well it explains the recording; for comparisons
  bool swings = false;  // live bytes move as they do between the others: else a loop inside a step
};

// Repetitions at different distances, best first: a program's loops are nested (layers in
// micro-batches in steps), and sizes do not show which of them makes steps (evidence.hpp). Linear
// in the allocations, except for a sort of at most a few hundred thousand sampled hashes.
[[nodiscard]] std::vector<Repetition> find_repetitions(
    std::span<const SizedAllocation> allocations);

}  // namespace vram::explain
