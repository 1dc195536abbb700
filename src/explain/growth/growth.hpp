// Growth: finds the sites that hold more memory from step to step, and decides whether that is a
// leak. Examines only step boundaries and blocks: trends in totals give many false alarms on ageing
// software (Machida et al., ISSREW 2013), while a block that was allocated in a step, outlived the
// next boundaries and is still alive at the end is a fact. Survival alone does not distinguish a
// leak from a cache that fills, so the times of allocations and frees decide (growth_group.hpp). A
// leak must meet all of:
//   - most of what the steps allocate, they free;
//   - blocks of at least kMinBirthSteps different steady steps are alive at the end;
//   - at least kMinSurvival of the bytes that survived two steps are alive at the end;
//   - a lasting rate explains the births much better than a cache does, the more so the more
//     sites were tested (discoveries(), kMaxFalseShare);
//   - births have not faded or ended by the last steps;
//   - live bytes at step ends rise by at least kMinSlopeBytes a step.
// Growth that is freed or fades is a bounded cache; births in one or two steps are a one-off; the
// rest is undecided and needs more steps. A site is the user's frame of the stack, or size and
// stream without a stack. Sizes that are allocated in the same steps are one leak, as are four or
// more frames called from one line. Blocks without a frame have the name that the program gave
// them, if any.
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
