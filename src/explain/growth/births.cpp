#include "explain/growth/births.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace vram::explain {
namespace {

constexpr double kAlmostOne = 1 - 1e-6;
// Of a rhythm of every k-th step: births that come at k, a step off it, or anywhere.
constexpr double kOnTime = 0.9;
constexpr double kOneOff = 0.04;
constexpr double kAnywhere = 0.02;

double log_binomial(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

double even_log_likelihood(std::span<const uint32_t> births, uint32_t length) {
  const auto count = static_cast<double>(births.size());
  const double others = length - count;
  const double p = count / length;
  return count * std::log(p) + (others > 0 ? others * std::log1p(-p) : 0);
}

// The median distance of births; 0 of one.
uint32_t usual_gap(std::span<const uint32_t> births) {
  std::vector<uint32_t> gaps;
  for (size_t i = 1; i < births.size(); ++i) gaps.push_back(births[i] - births[i - 1]);
  if (gaps.empty()) return 0;
  std::ranges::nth_element(gaps, gaps.begin() + static_cast<ptrdiff_t>(gaps.size() / 2));
  return gaps[gaps.size() / 2];
}

// Those that were due since the last one, a step late at most.
uint32_t missing_births(std::span<const uint32_t> births, uint32_t length, uint32_t k) {
  const uint32_t quiet = length - 1 - births.back();
  return quiet > 0 ? (quiet - 1) / k : 0;
}

// Small k are likelier than large ones by 1 / (k (k + 1)), which sums to 1, and the first birth may
// come in each of the first k steps.
double regular_log_likelihood(std::span<const uint32_t> births, uint32_t length) {
  const uint32_t k = usual_gap(births);
  if (k == 0) return -std::numeric_limits<double>::infinity();
  const double anywhere = std::log(kAnywhere / length);
  double sum = -std::log(static_cast<double>(k) * (k + 1));
  sum += births.front() < k ? -std::log(static_cast<double>(k)) : anywhere;
  for (size_t i = 1; i < births.size(); ++i) {
    const uint32_t gap = births[i] - births[i - 1];
    const bool near = gap + 1 == k || gap == k + 1;
    sum += gap == k ? std::log(kOnTime) : near ? std::log(kOneOff) : anywhere;
  }
  return sum + missing_births(births, length, k) * std::log(kAnywhere);
}

// A cache of `capacity` entries: in each step with a lookup, with probability `p`, one is
// missing with probability 1 - entries / capacity.
double cache_log_likelihood(std::span<const uint32_t> births, uint32_t length, double capacity,
                            double p) {
  double sum = 0;
  uint32_t at = 0;
  for (size_t entries = 0; entries <= births.size(); ++entries) {
    const double missing = std::max(1 - static_cast<double>(entries) / capacity, 0.0);
    const double chance = std::min(p * missing, kAlmostOne);
    const uint32_t birth = entries < births.size() ? births[entries] : length;
    sum += (birth - at) * std::log1p(-chance);
    if (entries < births.size()) sum += std::log(std::max(chance, 1e-300));
    at = birth + 1;
  }
  return sum;
}

// The largest over capacities and probabilities. The probability that gives as many births as there
// are is near the best.
double best_cache_log_likelihood(std::span<const uint32_t> births, uint32_t length) {
  const auto count = static_cast<double>(births.size());
  double best = -std::numeric_limits<double>::infinity();
  for (const double full : {kFullCache, (kFullCache + 1) / 2, 1.0}) {
    const double capacity = count / full;
    double misses = 0;  // expected, with one lookup in every step
    uint32_t at = 0;
    for (size_t entries = 0; entries <= births.size(); ++entries) {
      const uint32_t next = entries < births.size() ? births[entries] + 1 : length;
      misses += (next - at) * (1 - static_cast<double>(entries) / capacity);
      at = next;
    }
    for (const double factor : {0.6, 0.8, 1.0, 1.25, 1.6}) {
      const double p = std::min(factor * count / misses, 1.0);
      best = std::max(best, cache_log_likelihood(births, length, capacity, p));
    }
  }
  return best;
}

}  // namespace

double lasting_log_ratio(std::span<const uint32_t> births, uint32_t length) {
  if (births.empty()) return 0;
  const double lasting =
      std::max(even_log_likelihood(births, length), regular_log_likelihood(births, length));
  return lasting - best_cache_log_likelihood(births, length);
}

uint32_t overdue_births(std::span<const uint32_t> births, uint32_t length) {
  const uint32_t k = usual_gap(births);
  if (k == 0) return 0;
  const uint32_t until = births.back() + 1;
  return regular_log_likelihood(births, until) > even_log_likelihood(births, until)
             ? missing_births(births, length, k)
             : 0;
}

double fading_probability(std::span<const uint32_t> births, uint32_t length) {
  if (births.empty()) return 1;
  const auto count = static_cast<double>(births.size());
  const double all = log_binomial(length, count);
  const uint32_t last_third = length / 3;
  const auto late = births.end() - std::ranges::lower_bound(births, length - last_third);
  double few_late = 0;
  for (ptrdiff_t k = 0; k <= late; ++k) {
    const double early = count - static_cast<double>(k);
    if (early > length - last_third) continue;
    few_late += std::exp(log_binomial(last_third, static_cast<double>(k)) +
                         log_binomial(length - last_third, early) - all);
  }
  const double quiet = std::exp(log_binomial(births.back() + 1.0, count) - all);
  return std::min({few_late, quiet, 1.0});
}

std::vector<bool> discoveries(std::span<const double> log_ratios, size_t tests,
                              double false_share) {
  std::vector<double> sorted(log_ratios.begin(), log_ratios.end());
  std::ranges::sort(sorted, std::greater());
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double needed =
        std::log(static_cast<double>(tests) / (false_share * static_cast<double>(i + 1)));
    if (sorted[i] >= needed) least = needed;
  }
  std::vector<bool> found;
  for (const double ratio : log_ratios) found.push_back(ratio >= least);
  return found;
}

}  // namespace vram::explain
