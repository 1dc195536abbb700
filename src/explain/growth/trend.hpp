// Trend: the statistics behind growth. Plain functions of numbers; nothing here knows of memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

// Does the series rise? One-sided Mann–Kendall test (Mann 1945, Kendall 1975): the probability that
// a random order of the same values rises as clearly. Up to kExactLimit values it is exact, with
// ties (equal values) as they are: the number of inversions of a multiset's permutations is counted
// by the Gaussian multinomial coefficient (MacMahon 1916). Beyond, the normal approximation with
// the tie-corrected variance and continuity correction. 1 for fewer than 3. More than
// 400 values are thinned evenly first.
inline constexpr size_t kExactLimit = 20;
[[nodiscard]] double rising_probability(std::span<const double> series);

// Theil–Sen: the median of the slopes between all pairs (Theil 1950, Sen 1968), and the lower bound
// of its one-sided 95 % confidence interval from Kendall's variance (Sen 1968). More than 400
// values are thinned evenly first. Indices are x.
struct Slope {
  double median = 0;
  double lower = 0;
};
[[nodiscard]] Slope theil_sen(std::span<const double> series);

// Benjamini–Hochberg (1995): p-values corrected for having looked at `tests` sites; those not given
// count as 1.
[[nodiscard]] std::vector<double> corrected(std::span<const double> p_values, size_t tests);

// Laplace's test for a rate that falls or rises (Cox & Lewis 1966): standard normal under an even
// rate, negative when the events (indices below `length`) come early, as with a cache that fills.
[[nodiscard]] double laplace_score(std::span<const uint32_t> events, uint32_t length);

}  // namespace vram::explain
