// Evidence: whether similar ranges of events also behave like steps. The layers of one forward pass
// are similar, and so are the rounds of a benchmark, but they are no steps. The lives of their
// blocks show the difference.
#pragma once

#include "explain/history/history.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

struct EventRange {
  uint64_t first = 0;
  uint64_t end = 0;
};

// The flags hold for most ranges. Not for the layers of a backward pass that recomputes its forward
// (activation checkpointing): each of them frees what was allocated long before it, and the next
// one what was allocated even earlier.
struct StepEvidence {
  // A backward pass: kMinNested blocks or more are born in the range one after the other and die in
  // it in the reverse order, or kMinNestedAlone if little is passed to the next range. Calls inside
  // calls nest a few.
  bool trains = false;
  // Almost nothing is passed to the next range. A layer passes its output on, and so does a step of
  // an iterative method.
  bool stands_alone = false;
  // Each range contains the same number of passes: times that its allocations accumulate and are
  // freed. Sizes that change from step to step recur only in some steps; ranges between those
  // contain one step or several. Of ranges that train, passes that train count, since evaluations
  // come in some steps only.
  bool is_even = false;
  // Each range contains several passes that train, and passes that do not: several steps with an
  // evaluation.
  bool has_evaluations = false;
  size_t usual_passes = 0;  // that most ranges contain
  // That contain another number of them. The first does not count, since what it shares with the
  // program's set-up may have been left out, and neither does the last.
  size_t odd_ranges = 0;
  // Where live bytes were highest in each pass that trains: its backward begins. Event numbers, by
  // range.
  std::vector<std::vector<uint64_t>> turns;
};

// A two-layer LSTM nests 11 to 15 blocks in a step of training, larger models 20 to 350; a layer of
// a forward pass 2 to 9.
inline constexpr size_t kMinNested = 10;
// For ranges that pass at most kMaxHandedByTraining of their peak to the next range. A layer of a
// forward pass hands on its output, which is more; a step hands on a batch that is prefetched.
inline constexpr size_t kMinNestedAlone = 6;
inline constexpr double kMaxHandedByTraining = 0.08;

// The ranges ascend and do not overlap. Linear in their events.
[[nodiscard]] StepEvidence find_evidence(const History& history,
                                         std::span<const EventRange> ranges);

}  // namespace vram::explain
