// Births: the statistics behind growth. Of the steps of a recording a site gave birth, in some, to
// blocks that never died. A leak does so at a rate that lasts; a cache does so ever more seldom,
// the fuller it is; a warm-up ends. Plain functions of step numbers: `births` are different steps,
// rising, below `length`. Nothing here knows of memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

// How much better than as a cache that fills these births are explained at a lasting rate: the
// logarithm of the likelihood ratio, each side with the parameters that suit it best.
//   - A lasting rate: in each step with the same probability, or every k-th step, a step more or
//   less now and then.
//   - A cache: with a probability in proportion to the entries that are still missing, of which at
//   least kFullCache are there at the end (the coupon collector's problem).
// Births in every step of a short recording are explained by the first alone, births at random
// in some of the steps need many steps to be told from a cache. 0 without births.
inline constexpr double kFullCache = 0.95;
[[nodiscard]] double lasting_log_ratio(std::span<const uint32_t> births, uint32_t length);

// If births came in random order: how probable is it that the last third of the steps has so few of
// them, or, where that is less, that the steps after the last one are so many? Exact
// (hypergeometric). 1 without births.
[[nodiscard]] double fading_probability(std::span<const uint32_t> births, uint32_t length);

// Which of `tests` sites to believe, of which these have the largest ratios: the more sites were
// tested, the larger a ratio has to be. The Benjamini–Hochberg procedure for likelihood ratios
// (e-BH, Wang & Ramdas 2022), by which at most `false_share` of those believed are expected to be
// wrong, however the sites depend on each other. That is proven for ratios whose parameters are
// given; those of lasting_log_ratio() are fitted on both sides, and simulation_test.cpp shows how
// often it errs.
[[nodiscard]] std::vector<bool> discoveries(std::span<const double> log_ratios, size_t tests,
                                            double false_share);

}  // namespace vram::explain
