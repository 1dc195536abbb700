// Births: the statistics of growth. In some steps of a recording, a site allocates blocks that are
// never freed ("births"). A leak does so at a lasting rate; a cache less and less often, the fuller
// it is; a warm-up ends. Plain functions of step numbers: `births` are distinct, increasing steps
// below `length`. Nothing here depends on memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

// The log-likelihood ratio of a lasting rate against a cache that fills, each with its best
// parameters.
//   - A lasting rate: the same probability in each step, or every k-th step, with occasional
//     deviations of a step.
//   - A cache: a probability proportional to the missing entries, of which at least kFullCache
//     are present at the end (the coupon collector's problem).
// Only the former explains births in every step of a short recording; random births in some of the
// steps need many steps to be distinguished from a cache. 0 without births.
inline constexpr double kFullCache = 0.95;
[[nodiscard]] double lasting_log_ratio(std::span<const uint32_t> births, uint32_t length);

// If the births came in random order: the probability that the last third of the steps has so few
// of them or, if that is smaller, that so many steps follow the last one. Exact (hypergeometric). 1
// without births.
[[nodiscard]] double fading_probability(std::span<const uint32_t> births, uint32_t length);

// How many births are missing at the end, if they came in every k-th step until then: one may be a
// step late. 0 without such a rhythm, and if births came in every step (fading_probability()).
[[nodiscard]] uint32_t overdue_births(std::span<const uint32_t> births, uint32_t length);

// Which of `tests` sites to believe, of which these have the largest ratios: the more sites were
// tested, the larger a ratio has to be. The Benjamini–Hochberg procedure for likelihood ratios
// (e-BH, Wang & Ramdas 2022), by which at most `false_share` of those believed are expected to be
// wrong, however the sites depend on each other. That is proven for ratios whose parameters are
// given; those of lasting_log_ratio() are fitted on both sides, and growth_test.cpp shows how
// often it errs.
[[nodiscard]] std::vector<bool> discoveries(std::span<const double> log_ratios, size_t tests,
                                            double false_share);

}  // namespace vram::explain
