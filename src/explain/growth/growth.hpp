// Growth: which sites hold more memory from step to step, and why that is a leak or is not. Looks
// at step boundaries only, and combines object facts with statistics: a trend in totals alone gives
// many false alarms on ageing software (Machida et al., ISSREW 2013); a block that was born in a
// step, outlived the next boundary and is still there at the end is a fact. A leak must pass all
// of:
//   - blocks born in at least kMinBirthSteps different steady steps are alive at the end (age
//   distribution);
//   - at least kMinSurvival of the bytes that were there two steps later are alive at the end
//   (survival);
//   - births go on to the end at an even rate (Laplace test, halves compared): a cache that fills
//   slows down;
//   - live bytes at step ends rise: tie-corrected Mann–Kendall, corrected for all sites
//   (Benjamini–Hochberg) below
//     kMaxProbability, and a Theil–Sen slope of at least kMinSlopeBytes whose lower 95 % bound is
//     above 0.
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

inline constexpr size_t kMinBirthSteps = 3;
inline constexpr double kMinSurvival = 0.9;
inline constexpr double kMaxProbability = 0.01;
inline constexpr double kMinSlopeBytes = 512;
inline constexpr double kMinReportedShare = 0.01;  // of the peak, for growth that is no leak

// Leaks first, then by bytes. Empty with fewer than 5 steps after the warm-up. Linear in the
// lifetimes.
[[nodiscard]] std::vector<Growth> find_growth(const trace::Trace& trace,
                                              const trace::DeviceTrace& device,
                                              const History& history, const Steps& steps,
                                              int64_t origin_ns, const Names& names);

}  // namespace vram::explain
