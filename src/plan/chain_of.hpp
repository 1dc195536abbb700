// chain_of: the chain of a recorded training step: what each stage keeps and needs, by the births
// and deaths of blocks in its forward and backward. A pure function.
#pragma once

#include "base/result.hpp"
#include "plan/chain.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::plan {

struct ChainOptions {
  std::string stages;  // as the pattern of find_windows()
};

// The pass that a chain was made from. All sizes are requested bytes: reserved memory is more.
struct RecordedStep {
  uint32_t device = 0;
  // Its peak, and that of all memory outside of such passes (the optimizer's step), which no plan
  // changes.
  uint64_t pass_peak_bytes = 0;
  uint64_t rest_peak_bytes = 0;
  std::vector<std::string> notes;  // what the chain counts too high, and whose times it has
};

struct RecordedChain {
  Chain chain;  // passed check(); its stages have one option each, "keep all"
  RecordedStep step;
};

// Of the passes in the trace (find_passes()), that with the highest peak, on the GPU with the
// highest. The trace must have scopes of modules, forward and backward, and times; it comes from
// vram.dry_run() or from a recording under vram.watch(). Errors say what is missing.
//
// Keeping everything never needs less by the chain than it did in the trace, since what cannot be
// assigned to a stage counts as there all the time. It needs more if memory is freed earlier than a
// chain can express; a report compares the two. A forward that keeps nothing is taken to need as
// much as one that keeps everything, because the trace does not show when it would free what.
// Linear in the events, but for a factor log n.
[[nodiscard]] Result<RecordedChain> chain_of(const trace::Trace& trace,
                                             const ChainOptions& options = {});

}  // namespace vram::plan
