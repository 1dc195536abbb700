// The median of numbers.
#pragma once

#include <algorithm>
#include <cstddef>
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

}  // namespace vram
