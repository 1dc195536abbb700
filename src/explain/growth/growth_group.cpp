#include "explain/growth/growth_group.hpp"

#include "base/statistics.hpp"
#include "explain/growth/growth.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <unordered_map>

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

// The last ends are left out: whether what was born there survives is unknown.
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

namespace {

class SiteTable {
 public:
  SiteTable(UserFrames* frames, std::vector<SurvivorSite>* sites)
      : frames_(frames), sites_(sites) {}

  uint32_t site_of(const Lifetime& l) {
    const trace::FrameId frame = l.stack == 0 ? 0 : frames_->frame(l.stack);
    if (frame != 0) return look_up(&by_frame_, frame, {frame, 0, 0});
    return look_up(&by_size_[l.stream], l.requested_bytes, {0, l.requested_bytes, l.stream});
  }

 private:
  uint32_t look_up(std::unordered_map<uint64_t, uint32_t>* ids, uint64_t key,
                   const SurvivorSite& site) {
    const auto [entry, is_new] = ids->try_emplace(key, static_cast<uint32_t>(sites_->size()));
    if (is_new) sites_->push_back(site);
    return entry->second;
  }

  UserFrames* frames_;
  std::vector<SurvivorSite>* sites_;
  std::unordered_map<uint64_t, uint32_t> by_frame_;
  std::unordered_map<trace::StreamId, std::unordered_map<uint64_t, uint32_t>> by_size_;
};

}  // namespace

Survivors find_survivors(const History& history, const std::vector<Step>& steps,
                         UserFrames* frames) {
  Survivors found;
  SiteTable table(frames, &found.sites);
  std::vector<uint64_t> ends;
  ends.reserve(steps.size());
  for (const Step& step : steps) ends.push_back(step.first_event + step.event_count);
  uint32_t birth = 0;
  for (uint32_t i = 0; i < history.lifetimes.size(); ++i) {
    const Lifetime& l = history.lifetimes[i];
    const bool before = l.alloc_event == kBeforeRecording;
    while (!before && birth < ends.size() && l.alloc_event >= ends[birth]) ++birth;
    if (birth + kOutlivedEnds > ends.size()) break;  // born too late to outlive so many ends
    const uint32_t freed = std::min(l.free_requested_event, l.free_completed_event);
    if (freed < ends[birth + kOutlivedEnds - 1]) continue;
    const auto death =
        std::upper_bound(ends.begin() + birth, ends.end(), uint64_t{freed}) - ends.begin();
    const bool setup = before || l.alloc_event < steps.front().first_event;
    const bool is_private = l.pool != 0;
    found.blocks.push_back({i, birth, static_cast<uint32_t>(death), table.site_of(l),
                            l.requested_bytes, setup, is_private});
  }
  std::stable_sort(found.blocks.begin(), found.blocks.end(),
                   [](const Survivor& a, const Survivor& b) { return a.site < b.site; });
  return found;
}

namespace {

constexpr double kAlmostOne = 1 - 1e-6;
// Of a rhythm of every k-th step: births that come at k, a step off it, or anywhere.
constexpr double kOnTime = 0.9;
constexpr double kOneOff = 0.04;
constexpr double kAnywhere = 0.02;

double log_binomial(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

double even_log_likelihood(std::span<const uint32_t> births, uint32_t length) {
  const auto count = static_cast<double>(births.size());
  const double others = length - count;
  const double p = count / length;
  return count * std::log(p) + (others > 0 ? others * std::log1p(-p) : 0);
}

// Small k are likelier than large ones by 1 / (k (k + 1)), which sums to 1, and the first birth may
// come in each of the first k steps.
double regular_log_likelihood(std::span<const uint32_t> births, uint32_t length) {
  std::vector<uint32_t> gaps;
  for (size_t i = 1; i < births.size(); ++i) gaps.push_back(births[i] - births[i - 1]);
  if (gaps.empty()) return -std::numeric_limits<double>::infinity();
  std::ranges::nth_element(gaps, gaps.begin() + static_cast<ptrdiff_t>(gaps.size() / 2));
  const uint32_t k = gaps[gaps.size() / 2];
  const double anywhere = std::log(kAnywhere / length);
  double sum = -std::log(static_cast<double>(k) * (k + 1));
  sum += births.front() < k ? -std::log(static_cast<double>(k)) : anywhere;
  for (const uint32_t gap : gaps) {
    const bool near = gap + 1 == k || gap == k + 1;
    sum += gap == k ? std::log(kOnTime) : near ? std::log(kOneOff) : anywhere;
  }
  // Those that were due since the last one, a step late at most.
  const uint32_t quiet = length - 1 - births.back();
  return sum + (quiet > 0 ? (quiet - 1) / k : 0) * std::log(kAnywhere);
}

// A cache of `capacity` entries: in each step with a lookup, with probability `p`, one is
// missing with probability 1 - entries / capacity.
double cache_log_likelihood(std::span<const uint32_t> births, uint32_t length, double capacity,
                            double p) {
  double sum = 0;
  uint32_t at = 0;
  for (size_t entries = 0; entries <= births.size(); ++entries) {
    const double missing = std::max(1 - static_cast<double>(entries) / capacity, 0.0);
    const double chance = std::min(p * missing, kAlmostOne);
    const uint32_t birth = entries < births.size() ? births[entries] : length;
    sum += (birth - at) * std::log1p(-chance);
    if (entries < births.size()) sum += std::log(std::max(chance, 1e-300));
    at = birth + 1;
  }
  return sum;
}

// The largest over capacities and probabilities. The probability that gives as many births as there
// are is near the best.
double best_cache_log_likelihood(std::span<const uint32_t> births, uint32_t length) {
  const auto count = static_cast<double>(births.size());
  double best = -std::numeric_limits<double>::infinity();
  for (const double full : {kFullCache, (kFullCache + 1) / 2, 1.0}) {
    const double capacity = count / full;
    double misses = 0;  // expected, with one lookup in every step
    uint32_t at = 0;
    for (size_t entries = 0; entries <= births.size(); ++entries) {
      const uint32_t next = entries < births.size() ? births[entries] + 1 : length;
      misses += (next - at) * (1 - static_cast<double>(entries) / capacity);
      at = next;
    }
    for (const double factor : {0.6, 0.8, 1.0, 1.25, 1.6}) {
      const double p = std::min(factor * count / misses, 1.0);
      best = std::max(best, cache_log_likelihood(births, length, capacity, p));
    }
  }
  return best;
}

}  // namespace

double lasting_log_ratio(std::span<const uint32_t> births, uint32_t length) {
  if (births.empty()) return 0;
  const double lasting =
      std::max(even_log_likelihood(births, length), regular_log_likelihood(births, length));
  return lasting - best_cache_log_likelihood(births, length);
}

double fading_probability(std::span<const uint32_t> births, uint32_t length) {
  if (births.empty()) return 1;
  const auto count = static_cast<double>(births.size());
  const double all = log_binomial(length, count);
  const uint32_t last_third = length / 3;
  const auto late = births.end() - std::ranges::lower_bound(births, length - last_third);
  double few_late = 0;
  for (ptrdiff_t k = 0; k <= late; ++k) {
    const double early = count - static_cast<double>(k);
    if (early > length - last_third) continue;
    few_late += std::exp(log_binomial(last_third, static_cast<double>(k)) +
                         log_binomial(length - last_third, early) - all);
  }
  const double quiet = std::exp(log_binomial(births.back() + 1.0, count) - all);
  return std::min({few_late, quiet, 1.0});
}

std::vector<bool> discoveries(std::span<const double> log_ratios, size_t tests,
                              double false_share) {
  std::vector<double> sorted(log_ratios.begin(), log_ratios.end());
  std::ranges::sort(sorted, std::greater());
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double needed =
        std::log(static_cast<double>(tests) / (false_share * static_cast<double>(i + 1)));
    if (sorted[i] >= needed) least = needed;
  }
  std::vector<bool> found;
  for (const double ratio : log_ratios) found.push_back(ratio >= least);
  return found;
}

}  // namespace vram::explain
