// Growth: finds the sites that hold more memory from step to step, and decides whether that is a
// leak. Examines only step ends and blocks. A trend test alone gives many false alarms on ageing
// software (Machida et al., ISSREW 2013); a block that was allocated in a step, outlived the next
// ends and is still alive at the last is a fact. A leak must meet all of:
//   - most of what the steps allocate, they free;
//   - live bytes at step ends rise: the Mann–Kendall test, corrected for ties (trend.hpp), over all
//     sites (at most kMaxFalseRises false discoveries);
//   - blocks of at least kMinBirthSteps different steady steps are alive at the end;
//   - at least kMinSurvival of the bytes that survived two steps are alive at the end;
//   - a lasting rate explains the births much better than a cache does, the more so the more
//     sites were tested (births.hpp, kMaxFalseShare): caches that fill rise and survive, too;
//   - births have not faded or ended by the last steps, and none of a rhythm is missing there;
//   - if more than 1 - kMinSurvival of the blocks of that size or line are freed: those that stay
//     are others, and have not only lived longer (lives.hpp);
//   - the Theil–Sen slope is at least kMinSlopeBytes a step, and its lower bound above 0.
// Growth that is freed or fades is a bounded cache; births in one or two steps are a one-off; the
// rest is undecided and needs more steps. A site is the user's frame of the stack, or size and
// stream without a stack; what is no leak there is judged again by size, or by its position in the
// step. What belongs to one leak is joined (growth_join.hpp). Blocks without a frame have the name
// that the program gave them, if any.
#pragma once

#include "explain/history/history.hpp"
#include "explain/names/names.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <vector>

namespace vram::explain {

inline constexpr size_t kMinBirthSteps = 4;
inline constexpr double kMinSurvival = 0.9;
inline constexpr double kMaxFalseRises = 0.05;
inline constexpr double kMaxFalseShare = 0.2;
inline constexpr double kMinSlopeBytes = 512;
inline constexpr double kMinReportedShare = 0.01;  // of the peak, for growth that is no leak

struct GrowthResult {
  LeakVerdict verdict = LeakVerdict::kJudged;
  std::vector<Growth> sites;  // leaks first, then by bytes; empty without a verdict
};

// Linear in the lifetimes.
[[nodiscard]] GrowthResult find_growth(const trace::Trace& trace, const trace::DeviceTrace& device,
                                       const History& history, const Steps& steps,
                                       int64_t origin_ns, const Names& names);

}  // namespace vram::explain
