// Statistics that a few values far from the others do not move.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace vram {

// Of an even count the mean of the two in the middle, integers rounded down. T{} of none.
template <typename T>
[[nodiscard]] T median_of(std::vector<T> values) {
  if (values.empty()) return T{};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  const T lower = *std::max_element(values.begin(), middle);
  return lower + (*middle - lower) / 2;
}

struct Point {
  double x = 0;
  double y = 0;
};

// Theil–Sen: the median of the slopes between all pairs (Theil 1950, Sen 1968); 0 for fewer than
// two points. No two have the same x.
[[nodiscard]] double theil_sen(std::span<const Point> points);
// The indices are x; a series of more than 400 values is thinned evenly first.
[[nodiscard]] double theil_sen(std::span<const double> series);

}  // namespace vram
