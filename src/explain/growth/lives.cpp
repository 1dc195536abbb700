#include "explain/growth/lives.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

// The probability of at most `count` of n, each with probability p.
double binomial_at_most(size_t count, size_t n, double p) {
  if (p <= 0 || count >= n) return 1;
  const auto all = static_cast<double>(n);
  double sum = 0;
  for (size_t i = 0; i <= count; ++i) {
    const auto k = static_cast<double>(i);
    sum += std::exp(std::lgamma(all + 1) - std::lgamma(k + 1) - std::lgamma(all - k + 1) +
                    k * std::log(p) + (all - k) * std::log1p(-p));
  }
  return std::min(sum, 1.0);
}

// With the rate at the ages above `from` of `longest`.
double probability_above(std::span<const Life> lives, uint32_t least, double from) {
  double before = 0;  // ends that the blocks outlived up to the age `longest`
  double beyond = 0;
  std::vector<std::pair<uint32_t, bool>> deaths;  // whether beyond
  std::vector<uint32_t> at_longest;
  for (const Life& l : lives) {
    const uint32_t longest = std::max(l.longest, least);
    const uint32_t first = std::max(static_cast<uint32_t>(from * longest) + 1, least);
    if (l.age < first) continue;
    before += std::min(l.age, longest) - first + 1;
    beyond += l.age - std::min(l.age, longest);
    if (l.death == Life::kAlive) continue;
    deaths.emplace_back(l.death, l.age > longest);
    if (l.age == longest) at_longest.push_back(l.death);
  }
  if (before + beyond <= 0) return 1;
  std::ranges::sort(deaths);
  deaths.erase(std::unique(deaths.begin(), deaths.end()), deaths.end());
  const auto late = std::ranges::count_if(deaths, [](const auto& d) { return d.second; });
  // A single one at the age `longest` made it, and could not be elsewhere.
  std::ranges::sort(at_longest);
  at_longest.erase(std::unique(at_longest.begin(), at_longest.end()), at_longest.end());
  const size_t free_deaths = deaths.size() - (at_longest.size() == 1 ? 1 : 0);
  return binomial_at_most(static_cast<size_t>(late), free_deaths, beyond / (before + beyond));
}

}  // namespace

double same_fate_probability(std::span<const Life> lives, uint32_t least) {
  const double half = probability_above(lives, least, 0.5);
  const double quarter = probability_above(lives, least, 0.75);
  return std::min(1.0, 2 * std::min(half, quarter));  // two tests
}

}  // namespace vram::explain
