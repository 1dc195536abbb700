#include "explain/growth/trend.hpp"

#include "base/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace vram::explain {
namespace {

constexpr double kTwoSided95 = 1.959964;

size_t stride_of(size_t length) { return (length + kMaxTrendValues - 1) / kMaxTrendValues; }

std::vector<double> thinned(std::span<const double> series, size_t stride) {
  std::vector<double> values;
  for (size_t i = 0; i < series.size(); i += stride) values.push_back(series[i]);
  return values;
}

// Of S, the number of pairs in rising order minus that of pairs in falling order.
struct Kendall {
  int64_t s = 0;
  int64_t untied_pairs = 0;
  double variance = 0;
  bool has_ties = false;
};

Kendall kendall_of(std::span<const double> series) {
  Kendall k;
  const auto n = static_cast<double>(series.size());
  for (size_t i = 0; i < series.size(); ++i) {
    for (size_t j = i + 1; j < series.size(); ++j)
      k.s += (series[j] > series[i] ? 1 : 0) - (series[j] < series[i] ? 1 : 0);
  }
  std::vector<double> sorted(series.begin(), series.end());
  std::ranges::sort(sorted);
  k.untied_pairs = static_cast<int64_t>(series.size() * (series.size() - 1) / 2);
  k.variance = n * (n - 1) * (2 * n + 5);
  for (auto at = sorted.begin(); at != sorted.end();) {
    const auto end = std::upper_bound(at, sorted.end(), *at);
    const auto t = static_cast<int64_t>(end - at);
    const auto ties = static_cast<double>(t);
    k.variance -= ties * (ties - 1) * (2 * ties + 5);
    k.untied_pairs -= t * (t - 1) / 2;
    k.has_ties = k.has_ties || t > 1;
    at = end;
  }
  k.variance /= 18;
  return k;
}

// The probability of at least `rising` pairs in rising order, of n values in random order. The
// permutations of n values with k inversions come from those of n - 1 by inserting the largest.
double exact_p_value(size_t n, int64_t rising) {
  std::array<double, kExactLength*(kExactLength - 1) / 2 + 1> counts{1};
  double permutations = 1;
  for (size_t length = 2; length <= n; ++length) {
    permutations *= static_cast<double>(length);
    auto next = counts;
    for (size_t k = 0; k < counts.size(); ++k) {
      next[k] = 0;
      for (size_t inserted = 0; inserted < length && inserted <= k; ++inserted)
        next[k] += counts[k - inserted];
    }
    counts = next;
  }
  double at_least = 0;
  const size_t pairs = n * (n - 1) / 2;
  for (auto k = static_cast<size_t>(rising); k <= pairs; ++k) at_least += counts[k];
  return at_least / permutations;
}

double p_value_of(const Kendall& k, int64_t s, size_t n) {
  if (k.variance <= 0) return 1;
  if (!k.has_ties && n <= kExactLength) return exact_p_value(n, (s + k.untied_pairs) / 2);
  const double continuity = s > 0 ? 1 : s < 0 ? -1 : 0;
  const double z = (static_cast<double>(s) - continuity) / std::sqrt(k.variance);
  return std::erfc(z / std::numbers::sqrt2) / 2;
}

}  // namespace

Trend mann_kendall(std::span<const double> whole) {
  const std::vector<double> series = thinned(whole, stride_of(whole.size()));
  const auto differs = [&](double value) { return value != series.front(); };
  if (std::ranges::none_of(series, differs)) return {};
  const Kendall k = kendall_of(series);
  return {p_value_of(k, k.s, series.size()), p_value_of(k, k.untied_pairs, series.size())};
}

Slope sen_slope(std::span<const double> series) {
  if (series.size() < 2) return {};
  const size_t stride = stride_of(series.size());
  const std::vector<double> values = thinned(series, stride);
  std::vector<Point> points;
  for (size_t i = 0; i < values.size(); ++i)
    points.push_back({static_cast<double>(i * stride), values[i]});
  std::vector<double> slopes = slopes_of(points);
  std::ranges::sort(slopes);
  const auto count = static_cast<double>(slopes.size());
  const double spread = kTwoSided95 * std::sqrt(kendall_of(values).variance);
  const double low = std::max((count - spread) / 2, 1.0);
  const double high = std::min((count + spread) / 2 + 1, count);
  return {median_of(slopes), slopes[static_cast<size_t>(low) - 1],
          slopes[static_cast<size_t>(std::ceil(high)) - 1]};
}

std::vector<bool> rejected(std::span<const Trend> tests, size_t other_tests, double false_share) {
  std::vector<double> sorted;
  for (const Trend& test : tests) {
    if (test.least_p_value <= false_share) sorted.push_back(test.p_value);
  }
  std::ranges::sort(sorted);
  const auto count = static_cast<double>(sorted.size() + other_tests);
  double largest = -1;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] * count <= false_share * static_cast<double>(i + 1)) largest = sorted[i];
  }
  std::vector<bool> result;
  for (const Trend& test : tests)
    result.push_back(test.least_p_value <= false_share && test.p_value <= largest);
  return result;
}

}  // namespace vram::explain
