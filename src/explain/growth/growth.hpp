// Growth: which sites hold more memory from step to step, and whether that is a leak. Looks at step
// boundaries only, and at objects: a trend in totals gives many false alarms on ageing software
// (Machida et al., ISSREW 2013); a block that was born in a step, outlived the next boundaries and
// is still there at the end is a fact. Survival alone tells no leak from a cache that fills, so
// what decides is when blocks are born and whether they die (births.hpp). A leak must pass all of:
//   - most of what the steps allocate, they free;
//   - blocks born in at least kMinBirthSteps different steady steps are alive at the end;
//   - at least kMinSurvival of the bytes that were there two steps later are alive at the end;
//   - births at a lasting rate explain what was seen much better than a cache does, the more so the
//     more sites were tested (discoveries(), kMaxFalseShare);
//   - births have not faded or ended by the last steps;
//   - live bytes at step ends rise by at least kMinSlopeBytes a step.
// What dies or fades is a bounded cache; births in one or two steps are a one-off; the rest is
// undecided: more steps would tell.
// A site is the user's frame of the stack, or size and stream where there is no stack. Sizes that
// are born in the same steps are one leak, as are four or more frames called from one line.
// Where the program named the blocks, those without a frame are called so.
#pragma once

#include "explain/history/history.hpp"
#include "explain/names/names.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <vector>

namespace vram::explain {

inline constexpr size_t kMinBirthSteps = 4;
inline constexpr double kMinSurvival = 0.9;
inline constexpr double kMaxFalseShare = 0.1;
inline constexpr double kMinSlopeBytes = 512;
inline constexpr double kMinReportedShare = 0.01;  // of the peak, for growth that is no leak

// Leaks first, then by bytes. Empty with fewer than 5 steps after the warm-up. Linear in the
// lifetimes.
[[nodiscard]] std::vector<Growth> find_growth(const trace::Trace& trace,
                                              const trace::DeviceTrace& device,
                                              const History& history, const Steps& steps,
                                              int64_t origin_ns, const Names& names);

}  // namespace vram::explain
