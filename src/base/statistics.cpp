#include "base/statistics.hpp"

namespace vram {

std::vector<double> slopes_of(std::span<const Point> points) {
  std::vector<double> slopes;
  slopes.reserve(points.empty() ? 0 : points.size() * (points.size() - 1) / 2);
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t k = i + 1; k < points.size(); ++k)
      slopes.push_back((points[k].y - points[i].y) / (points[k].x - points[i].x));
  }
  return slopes;
}

}  // namespace vram
