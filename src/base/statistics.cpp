#include "base/statistics.hpp"

namespace vram {
namespace {

constexpr size_t kMaxPoints = 400;  // each pair of them has a slope

}  // namespace

double theil_sen(std::span<const Point> points) {
  std::vector<double> slopes;
  slopes.reserve(points.size() * (points.size() - 1) / 2);
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t k = i + 1; k < points.size(); ++k)
      slopes.push_back((points[k].y - points[i].y) / (points[k].x - points[i].x));
  }
  return median_of(std::move(slopes));
}

double theil_sen(std::span<const double> series) {
  const size_t stride = std::max<size_t>(1, (series.size() + kMaxPoints - 1) / kMaxPoints);
  std::vector<Point> points;
  for (size_t i = 0; i < series.size(); i += stride)
    points.push_back({static_cast<double>(i), series[i]});
  return theil_sen(points);
}

}  // namespace vram
