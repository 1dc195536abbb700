// GrowthGroup: the survivors of one site (or several that are one leak) and the verdict from their
// births and deaths. Part of growth.cpp; growth.hpp has the rules.
#pragma once

#include "explain/growth/survivors.hpp"

#include <cstdint>
#include <vector>

namespace vram::explain {

// The examined steps: [warmup, steps).
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
  std::vector<uint32_t> early_births;  // different warm-up steps, likewise
  uint64_t early_bytes = 0;            // born in warm-up steps (not before) and alive at the end
  double log_ratio = 0;                // lasting_log_ratio() of the births
};

// Fills everything but log_ratio from `blocks`.
void count_births(const GrowthWindow& w, GrowthGroup* g);

// Whether there are enough births for a test.
[[nodiscard]] bool is_testable(const GrowthGroup& g);
// lasting_log_ratio() over the steps in which a survivor can be born, the steady ones or all,
// whichever is less: a warm-up may hide the steps in which a cache filled fastest.
[[nodiscard]] double log_ratio_of(const GrowthWindow& w, const GrowthGroup& g);
// fading_probability() over the steady ones.
[[nodiscard]] double fading_of(const GrowthWindow& w, const GrowthGroup& g);
// Do its blocks stay, outside of private pools?
[[nodiscard]] bool survives(const GrowthGroup& g);
// Bytes a step: Theil–Sen over live bytes at the ends of the steady steps.
[[nodiscard]] double slope_of(const GrowthWindow& w, const GrowthGroup& g);

}  // namespace vram::explain
