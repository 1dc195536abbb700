#include "explain/growth/trend.hpp"

#include "base/median.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

constexpr size_t kMaxPoints = 400;  // every pair of them is looked at

}  // namespace

double theil_sen(std::span<const double> series) {
  const size_t stride = std::max<size_t>(1, (series.size() + kMaxPoints - 1) / kMaxPoints);
  std::vector<double> slopes;
  for (size_t i = 0; i < series.size(); i += stride) {
    for (size_t k = i + stride; k < series.size(); k += stride) {
      slopes.push_back((series[k] - series[i]) / static_cast<double>(k - i));
    }
  }
  return median_of(std::move(slopes));
}

}  // namespace vram::explain
