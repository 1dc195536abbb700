#include "explain/growth/growth_group.hpp"

#include "base/statistics.hpp"
#include "explain/growth/births.hpp"
#include "explain/growth/growth.hpp"

#include <algorithm>

namespace vram::explain {
namespace {

bool is_steady_birth(const Survivor& s, const GrowthWindow& w) {
  return !s.from_setup && s.birth >= w.warmup;
}

// The steady steps in which a survivor can be born.
uint32_t length_of(const GrowthWindow& w) { return w.steps + 1 - kOutlivedEnds - w.warmup; }

std::vector<uint32_t> steady_births(const GrowthWindow& w, const GrowthGroup& g) {
  std::vector<uint32_t> births;
  births.reserve(g.births.size());
  for (const uint32_t b : g.births) births.push_back(b - w.warmup);
  return births;
}

}  // namespace

void count_births(const GrowthWindow& w, GrowthGroup* g) {
  for (const Survivor& s : g->blocks) {
    const bool alive = s.death == w.steps;
    if (!is_steady_birth(s, w)) {
      if (alive && !s.from_setup) g->early_bytes += s.bytes;
      if (alive && !s.from_setup) g->early_births.push_back(s.birth);
      continue;
    }
    g->born_bytes += s.bytes;
    if (!alive) continue;
    g->alive_bytes += s.bytes;
    if (s.is_private) g->private_bytes += s.bytes;
    g->births.push_back(s.birth);
  }
  for (std::vector<uint32_t>* births : {&g->births, &g->early_births}) {
    std::ranges::sort(*births);
    births->erase(std::unique(births->begin(), births->end()), births->end());
  }
}

bool is_testable(const GrowthGroup& g) { return g.births.size() >= kMinBirthSteps; }

double log_ratio_of(const GrowthWindow& w, const GrowthGroup& g) {
  std::vector<uint32_t> all = g.early_births;
  all.insert(all.end(), g.births.begin(), g.births.end());
  return std::min(lasting_log_ratio(steady_births(w, g), length_of(w)),
                  lasting_log_ratio(all, length_of(w) + w.warmup));
}

double fading_of(const GrowthWindow& w, const GrowthGroup& g) {
  return fading_probability(steady_births(w, g), length_of(w));
}

// What a CUDA graph captured stays as long as the graph, by design: capturing is no leak.
bool survives(const GrowthGroup& g) {
  return g.private_bytes * 2 <= g.alive_bytes &&
         static_cast<double>(g.alive_bytes) >= kMinSurvival * static_cast<double>(g.born_bytes);
}

// The last ends are left out: of what was born there nobody knows whether it survives.
double slope_of(const GrowthWindow& w, const GrowthGroup& g) {
  std::vector<double> change(w.steps + 1, 0.0);
  for (const Survivor& s : g.blocks) {
    change[s.birth] += static_cast<double>(s.bytes);
    change[s.death] -= static_cast<double>(s.bytes);
  }
  std::vector<double> series;
  double live = 0;
  for (uint32_t i = 0; i + kOutlivedEnds <= w.steps; ++i) {
    live += change[i];
    if (i >= w.warmup) series.push_back(live);
  }
  return theil_sen(series);
}

}  // namespace vram::explain
