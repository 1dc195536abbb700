// Evidence: do ranges of events that look alike behave like steps, too? The layers of one forward
// pass look alike, and so do the rounds of a benchmark; neither trains nor answers anything. What
// only steps do shows in the lives of their blocks.
#pragma once

#include "explain/history/history.hpp"

#include <cstdint>
#include <span>

namespace vram::explain {

struct EventRange {
  uint64_t first = 0;
  uint64_t end = 0;
};

// Of most ranges. Of none where they are the layers of one backward pass that computes its forward
// again (activation checkpointing): each of those frees what was allocated long before it, and the
// next one what was allocated earlier still.
struct StepEvidence {
  // A backward pass: kMinNested blocks or more are born in the range one after the other and die in
  // it in the reverse order. Calls inside calls nest a few.
  bool trains = false;
  // Next to nothing is handed to the next range. A layer hands its output on, and so does a step of
  // an iterative method.
  bool stands_alone = false;
  // As many passes in each: times that what the range allocates piles up and goes again. Sizes that
  // change from step to step recur in some steps alone; ranges between those hold one step or
  // several.
  bool is_even = false;
};

// A two-layer LSTM nests 11 to 15 blocks in a step of training, larger models 20 to 350; a layer of
// a forward pass 2 to 9.
inline constexpr size_t kMinNested = 10;

// The ranges ascend and do not overlap. Linear in their events.
[[nodiscard]] StepEvidence find_evidence(const History& history,
                                         std::span<const EventRange> ranges);

}  // namespace vram::explain
