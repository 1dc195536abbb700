// Trend: does a series rise, and how fast? Rank statistics, which a few values far from the others
// do not move, and which assume no distribution. Pure functions of numbers: nothing here depends on
// memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace vram::explain {

// The Mann–Kendall test (Mann 1945, Kendall 1975) of "the values come in random order" against
// "they rise". Without ties and for at most kExactLength values the distribution is exact; else it
// is the normal approximation with the continuity correction and the variance corrected for ties.
inline constexpr size_t kMaxTrendValues = 400;  // of both: longer series are thinned evenly first
struct Trend {
  double p_value = 1;  // one-sided
  // What the p-value of the same values would be in rising order: a series of equal values cannot
  // rise, whatever their order.
  double least_p_value = 1;
};
inline constexpr size_t kExactLength = 10;
[[nodiscard]] Trend mann_kendall(std::span<const double> series);

// The Theil–Sen slope, the median of the slopes between all pairs, with its confidence interval of
// 95 % (Sen 1968; with ties Gilbert 1987, section 16.5). Both ends are 0 for fewer than two values,
// and the least and the largest slope where there are too few values for the interval.
struct Slope {
  double median = 0;
  double low = 0;
  double high = 0;
};
[[nodiscard]] Slope sen_slope(std::span<const double> series);

// Which hypotheses to reject so that at most `false_share` of those rejected are expected to be
// wrong (Benjamini & Hochberg 1995). Series whose least p-value is above false_share are
// not counted as tests (Gilbert 2005, after Tarone 1990): constant series are most of a program's,
// and say nothing. `other_tests` were made, too.
[[nodiscard]] std::vector<bool> rejected(std::span<const Trend> tests, size_t other_tests,
                                         double false_share);

}  // namespace vram::explain
