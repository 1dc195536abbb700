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

// The slopes between all pairs of points, of which no two have the same x.
[[nodiscard]] std::vector<double> slopes_of(std::span<const Point> points);
// Theil–Sen: the median of these slopes (Theil 1950, Sen 1968); 0 for fewer than two points.
[[nodiscard]] inline double theil_sen(std::span<const Point> points) {
  return median_of(slopes_of(points));
}

}  // namespace vram
