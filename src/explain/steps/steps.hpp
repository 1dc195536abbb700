// Steps: iterations of a training or inference loop on one device, from annotations if there are
// any, else from the repetition of its allocations, else none: steps are never invented. Growth and
// phases use them.
#pragma once

#include "explain/history/history.hpp"
#include "explain/report.hpp"
#include "explain/site/scopes.hpp"
#include "trace/trace.hpp"

#include <cstdint>

namespace vram::explain {

// In order of preference: ProfilerStep#N; a scope named for steps ("train_step", "iteration 12");
// one mark for each period (Optimizer.step, or Optimizer.zero_grad if a gradient scaler skips
// steps); any other outermost scope that repeats and covers the recording, and repetition, both
// only with the evidence of evidence.hpp, since the layers of one forward pass repeat, too. A mark
// or a repeated run shows that there is a step, not where it begins: the boundary is set where live
// bytes were lowest between two of them.
//
// Fills everything but `phases`. `origin_ns` is the unix time of the report's time 0; without a
// clock times are event numbers. Linear in the events.
[[nodiscard]] Steps find_steps(const trace::Trace& trace, const trace::DeviceTrace& device,
                               const History& history, const Scopes& scopes, int64_t origin_ns);

// How many of the first steps are still settling: their live bytes at the end, or the memory they
// made the allocator reserve, still move more than those of the steps after them. At most a third
// of the steps.
[[nodiscard]] uint64_t count_warmup(const std::vector<Step>& steps);

}  // namespace vram::explain
