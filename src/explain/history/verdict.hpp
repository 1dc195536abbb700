// Verdict: how far a recording can be believed. The replayed heap is held against the recorded end
// state, segment by segment and block by block, and the end state against its own sums. Pure; no
// state.
#pragma once

#include "explain/history/heap.hpp"
#include "explain/history/history.hpp"
#include "explain/report.hpp"
#include "replay/baseline.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace vram::explain {

using replay::Baseline;

// Problems of the replay itself.
struct ReplayTrouble {
  uint64_t contradictions = 0;
  std::string first;  // one clause, "" when there was none
};

// `lifetimes` are the tenants of the heap's blocks. Leaves before_recording_* to the caller.
[[nodiscard]] Verdict judge(const trace::Trace& trace, const trace::DeviceTrace& device,
                            const Baseline& baseline, const Heap& heap,
                            std::span<const Lifetime> lifetimes, const ReplayTrouble& trouble);

}  // namespace vram::explain
