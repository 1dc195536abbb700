// GrowthGroup: the survivors of one site (or several that turned out to be one leak) and the tests
// a leak must pass. The judge inside growth.cpp; the rules and their sources stand in growth.hpp.
#pragma once

#include "explain/growth/survivors.hpp"
#include "explain/growth/trend.hpp"

#include <cstdint>
#include <vector>

namespace vram::explain {

// The steps looked at: [warmup, steps).
struct GrowthWindow {
  uint32_t warmup = 0;
  uint32_t steps = 0;
};

struct GrowthGroup {
  std::vector<Survivor> blocks;
  std::vector<uint32_t> births;  // different steady steps of blocks alive at the end, ascending
  uint64_t born_bytes = 0;       // born in steady steps
  uint64_t alive_bytes = 0;      // ... and alive at the end
  uint64_t private_bytes = 0;    // ... of a private pool
  uint64_t alive_count = 0;
  uint64_t early_bytes = 0;     // born in warm-up steps (not before) and alive at the end
  uint64_t halves[2] = {0, 0};  // alive_bytes by the half of the steady steps they were born in
  uint32_t early_birth = 0;
  double p_value = 1;
  Slope slope;
};

// Fills everything but the trend from `blocks`.
void count_births(const GrowthWindow& w, GrowthGroup* g);
// Mann–Kendall and Theil–Sen over live bytes at the ends of the steady steps.
void measure_trend(const GrowthWindow& w, GrowthGroup* g);
[[nodiscard]] Slope slope_of(const GrowthWindow& w, const GrowthGroup& g);

// The facts that a trend can be asked about at all: ages and survival.
[[nodiscard]] bool is_candidate(const GrowthGroup& g);
// Do births go on to the end at an even rate?
[[nodiscard]] bool goes_on(const GrowthWindow& w, const GrowthGroup& g);
// After p_value was corrected for all sites.
[[nodiscard]] bool rises(const GrowthGroup& g);

}  // namespace vram::explain
