// Families as text, in the two formats that Prometheus reads. Pure functions.
#pragma once

#include "show/metrics/families.hpp"

#include <string>

namespace vram::show::metrics {

// Text format 0.0.4.
[[nodiscard]] std::string prometheus_text(const Families& families);
// OpenMetrics 1.0.
[[nodiscard]] std::string openmetrics_text(const Families& families);

}  // namespace vram::show::metrics
