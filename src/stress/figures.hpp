// Figures: how fast bytes move between host and device, and what the driver's calls for memory
// take, measured one at a time on an otherwise idle card. What there is no memory for is left out.
// One thread.
#pragma once

#include "stress/budget.hpp"
#include "stress/card.hpp"
#include "stress/report.hpp"

#include <cstdint>
#include <vector>

namespace vram::stress {

[[nodiscard]] std::vector<Figure> measure_figures(Card& card, uint64_t leave_bytes,
                                                  const Budget& budget, const Progress& progress);

}  // namespace vram::stress
