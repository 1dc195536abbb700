// Boundaries: where steps begin and end, if all that is known is that each contains a mark: an
// annotation such as Optimizer.step, or a sequence of allocations that repeats. Boundaries are
// where live bytes are lowest, since blocks of a step rarely outlive it, and at the same place of
// the program in every step, so that what a step allocates last never counts for the next one.
#pragma once

#include "explain/history/history.hpp"
#include "explain/steps/evidence.hpp"
#include "trace/trace.hpp"

#include <span>
#include <vector>

namespace vram::explain {

enum class MarkKind {
  kAnnotation,  // at the end of each step
  kSequence,    // a single event of each step: of a sequence that repeats, anywhere in the step
  // Likewise, but of each pass. Passes do not all end at the same place of the program, since the
  // gradients are freed after some of them.
  kPass,
};

// Steps around marks: from one low-water mark of live bytes to the next. The marks ascend and do
// not overlap. After the last mark the search goes no further than after the others: when training
// is over the program frees everything, which is no part of a step. Linear in the events.
[[nodiscard]] std::vector<EventRange> ranges_around(std::span<const trace::Event> events,
                                                    const History& history,
                                                    const std::vector<EventRange>& marks,
                                                    MarkKind kind);

}  // namespace vram::explain
