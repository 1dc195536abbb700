// Trend: how fast a series rises. Nothing here depends on memory.
#pragma once

#include <span>

namespace vram::explain {

// Theil–Sen: the median of the slopes between all pairs (Theil 1950, Sen 1968). More than 400
// values are thinned evenly first. Indices are x; 0 for fewer than two values.
[[nodiscard]] double theil_sen(std::span<const double> series);

}  // namespace vram::explain
