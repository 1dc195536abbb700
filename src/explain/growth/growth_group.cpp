#include "explain/growth/growth_group.hpp"

#include "explain/growth/growth.hpp"

#include <algorithm>

namespace vram::explain {
namespace {

constexpr double kEarlyBirths = -2.33;  // Laplace score: births slow down with 99 % confidence
constexpr double kMinHalfShare = 0.33;  // bytes born in the second half against the first

bool is_steady_birth(const Survivor& s, const GrowthWindow& w) {
  return !s.from_setup && s.birth >= w.warmup;
}

// Live bytes of the group at the ends of the steady steps. The last ends are left
// out: of what was born there nobody knows whether it survives.
std::vector<double> live_series(const GrowthWindow& w, const GrowthGroup& g) {
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
  return series;
}

struct Gaps {
  uint32_t smallest = 0;
  uint32_t largest = 0;
};

Gaps gaps_of(const std::vector<uint32_t>& births) {
  Gaps gaps{0xffffffff, 0};
  for (size_t i = 1; i < births.size(); ++i) {
    gaps.smallest = std::min(gaps.smallest, births[i] - births[i - 1]);
    gaps.largest = std::max(gaps.largest, births[i] - births[i - 1]);
  }
  return gaps;
}

}  // namespace

void count_births(const GrowthWindow& w, GrowthGroup* g) {
  const uint32_t middle = w.warmup + (w.steps + 1 - kOutlivedEnds - w.warmup) / 2;
  for (const Survivor& s : g->blocks) {
    const bool alive = s.death == w.steps;
    if (!is_steady_birth(s, w)) {
      if (alive && !s.from_setup) g->early_bytes += s.bytes;
      if (alive && !s.from_setup) g->early_birth = s.birth;
      continue;
    }
    g->born_bytes += s.bytes;
    if (!alive) continue;
    g->alive_bytes += s.bytes;
    if (s.is_private) g->private_bytes += s.bytes;
    ++g->alive_count;
    g->halves[s.birth < middle ? 0 : 1] += s.bytes;
    g->births.push_back(s.birth);
  }
  std::sort(g->births.begin(), g->births.end());
  g->births.erase(std::unique(g->births.begin(), g->births.end()), g->births.end());
}

bool goes_on(const GrowthWindow& w, const GrowthGroup& g) {
  const uint32_t last_possible = w.steps - kOutlivedEnds;
  const uint32_t quiet = last_possible - g.births.back();
  if (quiet > std::max<uint32_t>(2 * gaps_of(g.births).largest, 2)) return false;
  std::vector<uint32_t> shifted;
  shifted.reserve(g.births.size());
  for (const uint32_t b : g.births) shifted.push_back(b - w.warmup);
  if (laplace_score(shifted, last_possible + 1 - w.warmup) < kEarlyBirths) return false;
  return static_cast<double>(g.halves[1]) >= kMinHalfShare * static_cast<double>(g.halves[0]);
}

// What a CUDA graph captured stays as long as the graph, by design: capturing is no leak.
bool is_candidate(const GrowthGroup& g) {
  return g.private_bytes * 2 <= g.alive_bytes && g.births.size() >= kMinBirthSteps &&
         static_cast<double>(g.alive_bytes) >= kMinSurvival * static_cast<double>(g.born_bytes);
}

void measure_trend(const GrowthWindow& w, GrowthGroup* g) {
  const std::vector<double> series = live_series(w, *g);
  g->p_value = rising_probability(series);
  g->slope = theil_sen(series);
}

// A rare leak (every third step) leaves the lower bound at 0 in short recordings; births at even
// distances of which none ever died say as much.
bool rises(const GrowthGroup& g) {
  const Gaps gaps = gaps_of(g.births);
  const bool even = gaps.largest <= 2 * gaps.smallest && g.alive_bytes == g.born_bytes;
  return g.p_value <= kMaxProbability && g.slope.median >= kMinSlopeBytes &&
         (g.slope.lower > 0 || even);
}

Slope slope_of(const GrowthWindow& w, const GrowthGroup& g) { return theil_sen(live_series(w, g)); }

}  // namespace vram::explain
