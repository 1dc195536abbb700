#include "explain/growth/trend.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vram::explain {
namespace {

constexpr size_t kMaxPoints = 400;  // both methods look at every pair
constexpr double kOneSided95 = 1.6449;

struct Thinned {
  std::vector<double> values;
  size_t stride = 1;
};

Thinned thinned(std::span<const double> series) {
  Thinned result;
  result.stride = std::max<size_t>(1, (series.size() + kMaxPoints - 1) / kMaxPoints);
  for (size_t i = 0; i < series.size(); i += result.stride) result.values.push_back(series[i]);
  return result;
}

// Pairs that rise minus pairs that fall.
int64_t kendall_score(std::span<const double> series) {
  int64_t score = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    for (size_t k = i + 1; k < series.size(); ++k) {
      score += series[k] > series[i] ? 1 : series[k] < series[i] ? -1 : 0;
    }
  }
  return score;
}

// How often each value occurs.
std::vector<size_t> multiplicities(std::span<const double> series) {
  std::vector<double> sorted(series.begin(), series.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<size_t> counts;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && sorted[i] == sorted[i - 1]) {
      ++counts.back();
    } else {
      counts.push_back(1);
    }
  }
  return counts;
}

double kendall_variance(size_t n, const std::vector<size_t>& ties) {
  const auto term = [](size_t count) {
    const auto c = static_cast<double>(count);
    return c * (c - 1) * (2 * c + 5);
  };
  double sum = term(n);
  for (const size_t t : ties) sum -= term(t);
  return sum / 18;
}

// The coefficients of the Gaussian multinomial as probabilities: by inversions, how likely is a
// random order. Built from q-binomials, each as the product of (1 - q^(below + i)) / (1 - q^i).
std::vector<double> inversion_probabilities(const std::vector<size_t>& ties) {
  std::vector<double> weights = {1.0};
  size_t below = 0;
  for (const size_t t : ties) {
    const size_t degree = weights.size() - 1 + below * t;
    weights.resize(weights.size() + below * t + t * t + below + t + 1, 0.0);
    for (size_t i = 1; i <= t; ++i) {
      const size_t up = below + i;
      for (size_t k = weights.size(); k-- > up;) weights[k] -= weights[k - up];
      for (size_t k = i; k < weights.size(); ++k) weights[k] += weights[k - i];
    }
    weights.resize(degree + 1);
    below += t;
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& w : weights) w /= total;
  return weights;
}

double exact_probability(int64_t score, const std::vector<size_t>& ties) {
  const std::vector<double> weights = inversion_probabilities(ties);
  const auto pairs = static_cast<int64_t>(weights.size()) - 1;  // that are not tied
  const int64_t most_inversions = (pairs - score) / 2;
  double sum = 0;
  for (int64_t k = 0; k <= most_inversions; ++k) sum += weights[static_cast<size_t>(k)];
  return std::min(sum, 1.0);
}

}  // namespace

double rising_probability(std::span<const double> all) {
  const std::vector<double> series = thinned(all).values;
  if (series.size() < 3) return 1;
  const std::vector<size_t> ties = multiplicities(series);
  if (ties.size() == 1) return 1;
  const int64_t score = kendall_score(series);
  if (series.size() <= kExactLimit) return exact_probability(score, ties);
  const double deviation = std::sqrt(kendall_variance(series.size(), ties));
  const double z = (static_cast<double>(score) - 1) / deviation;
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

Slope theil_sen(std::span<const double> series) {
  const auto [values, stride] = thinned(series);
  std::vector<double> slopes;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t k = i + 1; k < values.size(); ++k) {
      slopes.push_back((values[k] - values[i]) / static_cast<double>((k - i) * stride));
    }
  }
  if (slopes.empty()) return {};
  const auto at_rank = [&](double rank) {
    const auto index =
        static_cast<ptrdiff_t>(std::clamp(rank, 0.0, static_cast<double>(slopes.size() - 1)));
    std::nth_element(slopes.begin(), slopes.begin() + index, slopes.end());
    return slopes[static_cast<size_t>(index)];
  };
  const double pairs = static_cast<double>(slopes.size());
  const double reach =
      kOneSided95 * std::sqrt(kendall_variance(values.size(), multiplicities(values)));
  const double upper_middle = at_rank(pairs / 2);
  const double median =
      slopes.size() % 2 == 1 ? upper_middle : (upper_middle + at_rank(pairs / 2 - 1)) / 2;
  return {median, at_rank((pairs - reach) / 2)};
}

std::vector<double> corrected(std::span<const double> p_values, size_t tests) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> result(p_values.size());
  double smallest = 1;
  for (size_t rank = order.size(); rank-- > 0;) {
    const double scaled =
        p_values[order[rank]] * static_cast<double>(tests) / static_cast<double>(rank + 1);
    smallest = std::min(smallest, scaled);
    result[order[rank]] = smallest;
  }
  return result;
}

double laplace_score(std::span<const uint32_t> events, uint32_t length) {
  if (events.empty() || length == 0) return 0;
  double sum = 0;
  for (const uint32_t e : events) sum += e + 0.5;
  const double mean = sum / static_cast<double>(events.size());
  const double half = length / 2.0;
  return (mean - half) / (length * std::sqrt(1.0 / (12.0 * static_cast<double>(events.size()))));
}

}  // namespace vram::explain
