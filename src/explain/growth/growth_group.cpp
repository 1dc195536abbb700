#include "explain/growth/growth_group.hpp"

#include "explain/growth/births.hpp"
#include "explain/growth/growth.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace vram::explain {
namespace {

bool is_steady_birth(const Holdover& s, const GrowthWindow& w) {
  return !s.from_setup && s.birth >= w.warmup;
}

// The steady steps in which a survivor can be born.
uint32_t length_of(const GrowthWindow& w, const GrowthGroup& g) {
  return w.steps + 1 - g.outlived - w.warmup;
}

std::vector<uint32_t> steady_births(const GrowthWindow& w, const GrowthGroup& g) {
  std::vector<uint32_t> births;
  births.reserve(g.births.size());
  for (const uint32_t b : g.births) births.push_back(b - w.warmup);
  return births;
}

// Which steps have several births, and whether they come near an edge of the step.
class Edges {
 public:
  void add(const Holdover& b) {
    Step& step = steps_[b.birth];
    ++step.births;
    const uint32_t near = std::max(kNearEdge, (b.from_begin + b.to_end) / kNearEdgeShare);
    step.near_begin = step.near_begin || b.from_begin <= near;
    step.near_end = step.near_end || b.to_end <= near;
  }

  // Adds the steps beyond the edges to `births`, which are distinct and ascend.
  void level(const GrowthWindow& w, uint32_t outlived, std::vector<uint32_t>* births) const {
    const auto is_free = [&](uint32_t step) {
      return step >= w.warmup && step + outlived <= w.steps &&
             !std::ranges::binary_search(*births, step);
    };
    std::vector<uint32_t> counts;
    counts.reserve(steps_.size());
    for (const auto& [at, step] : steps_) counts.push_back(step.births);
    if (counts.empty()) return;
    const auto quarter = counts.begin() + static_cast<ptrdiff_t>(counts.size() / 4);
    std::ranges::nth_element(counts, quarter);
    const uint32_t usual = *quarter;
    std::vector<uint32_t> added;
    for (const auto& [at, step] : steps_) {
      if (step.births < 2 * usual) continue;
      const bool before_is_added = !added.empty() && added.back() + 1 == at;
      if (step.near_begin && at > 0 && !before_is_added && is_free(at - 1)) {
        added.push_back(at - 1);
      } else if (step.near_end && is_free(at + 1)) {
        added.push_back(at + 1);
      }
    }
    births->insert(births->end(), added.begin(), added.end());
    std::ranges::sort(*births);
    births->erase(std::unique(births->begin(), births->end()), births->end());
  }

 private:
  static constexpr uint32_t kNearEdge = 8;        // allocations
  static constexpr uint32_t kNearEdgeShare = 10;  // of the step's allocations
  struct Step {
    uint32_t births = 0;
    bool near_begin = false;
    bool near_end = false;
  };
  std::map<uint32_t, Step> steps_;
};

// A leak, or a cache, may begin late: both are judged from its first birth on.
double ratio_since_first(std::vector<uint32_t> births, uint32_t length) {
  if (births.empty()) return 0;
  const uint32_t first = births.front();
  const double whole = lasting_log_ratio(births, length);
  for (uint32_t& birth : births) birth -= first;
  return std::max(whole, lasting_log_ratio(births, length - first));
}

double bytes_of(const Holdover& b) { return static_cast<double>(b.bytes); }
double one(const Holdover& /*b*/) { return 1; }

// Live bytes, or blocks, at the ends of steps [first, last).
std::vector<double> live_at_ends(const GrowthWindow& w, const GrowthGroup& g, uint32_t first,
                                 uint32_t last, double (*weight)(const Holdover&) = bytes_of) {
  std::vector<double> change(w.steps + 1, 0.0);
  for (const Holdover& b : g.blocks) {
    change[b.birth] += weight(b);
    change[b.death] -= weight(b);
  }
  std::vector<double> ends;
  double live = 0;
  for (uint32_t i = 0; i < last; ++i) {
    live += change[i];
    if (i >= first) ends.push_back(live);
  }
  return ends;
}

// Adds the facts of `blocks` to those of `g`, which must be empty.
void add_facts(const GrowthWindow& w, GrowthGroup* g) {
  std::vector<uint32_t> holdover_steps;
  Edges edges;
  for (const Holdover& s : g->blocks) {
    if (is_steady_birth(s, w)) holdover_steps.push_back(s.birth);
    if (!s.survives(g->outlived)) continue;
    const bool alive = s.death == w.steps;
    if (!is_steady_birth(s, w)) {
      if (alive && !s.from_setup) {
        g->early_bytes += s.bytes;
        g->early_births.push_back(s.birth);
      }
      continue;
    }
    g->born_bytes += s.bytes;
    if (!alive) continue;
    g->alive_bytes += s.bytes;
    if (s.is_private) g->private_bytes += s.bytes;
    g->births.push_back(s.birth);
    edges.add(s);
  }
  for (std::vector<uint32_t>* births : {&g->births, &g->early_births, &holdover_steps}) {
    std::ranges::sort(*births);
    births->erase(std::unique(births->begin(), births->end()), births->end());
  }
  g->holdover_steps = holdover_steps.size();
  edges.level(w, g->outlived, &g->births);
}

}  // namespace

void count_births(const GrowthWindow& w, GrowthGroup* g) {
  GrowthGroup fresh;
  fresh.blocks = std::move(g->blocks);
  fresh.outlived = g->outlived;
  fresh.log_ratio = g->log_ratio;
  fresh.trend = g->trend;
  fresh.lead_frame = g->lead_frame;
  fresh.other_sites = g->other_sites;
  add_facts(w, &fresh);
  *g = std::move(fresh);
}

void drop_brief(GrowthGroup* g) {
  std::erase_if(g->blocks, [&](const Holdover& b) { return !b.survives(g->outlived); });
}

bool is_testable(const GrowthGroup& g) { return g.births.size() >= kMinBirthSteps; }

double log_ratio_of(const GrowthWindow& w, const GrowthGroup& g) {
  std::vector<uint32_t> all = g.early_births;
  all.insert(all.end(), g.births.begin(), g.births.end());
  return std::min(ratio_since_first(steady_births(w, g), length_of(w, g)),
                  ratio_since_first(all, length_of(w, g) + w.warmup));
}

Trend trend_of(const GrowthWindow& w, const GrowthGroup& g) {
  return mann_kendall(live_at_ends(w, g, w.warmup, w.steps));
}

double fading_of(const GrowthWindow& w, const GrowthGroup& g) {
  return fading_probability(steady_births(w, g), length_of(w, g));
}

namespace {

// Births of the steps before the last, in which no block can have survived yet. Where as many
// blocks of the step before were freed at that age or later, they are brief. The last step has no
// next one that shows where it ends, so that it may end among its brief blocks.
void add_young_births(const GrowthWindow& w, const GrowthGroup& g, std::vector<uint32_t>* births) {
  for (uint32_t age = 2; age < g.outlived && age < w.steps - w.warmup; ++age) {
    const uint32_t step = w.steps - age;
    int64_t more = 0;
    for (const Holdover& b : g.blocks) {
      if (b.from_setup) continue;
      if (b.birth == step && b.death == w.steps) ++more;
      if (b.birth + 1 == step && b.death < w.steps && b.death - b.birth >= age) --more;
    }
    if (more > 0) births->push_back(step - w.warmup);
  }
}

}  // namespace

uint32_t overdue_of(const GrowthWindow& w, const GrowthGroup& g) {
  std::vector<uint32_t> births = steady_births(w, g);
  const uint32_t of_survivors = overdue_births(births, length_of(w, g));
  add_young_births(w, g, &births);
  std::ranges::sort(births);
  births.erase(std::unique(births.begin(), births.end()), births.end());
  return std::max(of_survivors, overdue_births(births, w.steps - w.warmup - 1));
}

// What a CUDA graph captured stays as long as the graph, by design: capturing is no leak.
bool survives(const GrowthGroup& g) {
  return g.private_bytes * 2 <= g.alive_bytes &&
         static_cast<double>(g.alive_bytes) >= kMinSurvival * static_cast<double>(g.born_bytes);
}

namespace {

// The last ends are left out: whether what was born there survives is unknown.
Slope slope_of(const GrowthWindow& w, const GrowthGroup& g, double (*weight)(const Holdover&)) {
  const uint32_t first = g.births.empty() ? w.warmup : g.births.front();
  return sen_slope(live_at_ends(w, g, first, w.steps + 1 - g.outlived, weight));
}

}  // namespace

Slope slope_of(const GrowthWindow& w, const GrowthGroup& g) { return slope_of(w, g, bytes_of); }

double rate_of(const GrowthWindow& w, const GrowthGroup& g) {
  const auto kept = std::ranges::count_if(g.blocks, [&](const Holdover& b) {
    return is_steady_birth(b, w) && b.survives(g.outlived) && b.death == w.steps;
  });
  if (kept == 0) return 0;
  return slope_of(w, g, one).median * static_cast<double>(g.alive_bytes) /
         static_cast<double>(kept);
}

namespace {

class SiteTable {
 public:
  SiteTable(UserFrames* frames, std::vector<GrowthSite>* sites) : frames_(frames), sites_(sites) {}

  uint32_t site_of(const Lifetime& l) {
    const trace::FrameId frame = l.stack == 0 ? 0 : frames_->frame(l.stack);
    if (frame != 0) return look_up(&by_frame_, frame, {frame, 0, 0});
    return look_up(&by_size_[l.stream], l.requested_bytes, {0, l.requested_bytes, l.stream});
  }

 private:
  uint32_t look_up(std::unordered_map<uint64_t, uint32_t>* ids, uint64_t key,
                   const GrowthSite& site) {
    const auto [entry, is_new] = ids->try_emplace(key, static_cast<uint32_t>(sites_->size()));
    if (is_new) sites_->push_back(site);
    return entry->second;
  }

  UserFrames* frames_;
  std::vector<GrowthSite>* sites_;
  std::unordered_map<uint64_t, uint32_t> by_frame_;
  std::unordered_map<trace::StreamId, std::unordered_map<uint64_t, uint32_t>> by_size_;
};

}  // namespace

Holdovers find_holdovers(const History& history, const std::vector<Step>& steps,
                         UserFrames* frames) {
  Holdovers found;
  SiteTable table(frames, &found.sites);
  // Recordings without pools (of torch.profiler, RMM, XProf) state none for any block.
  const bool has_pools = std::ranges::any_of(history.lifetimes, [](const Lifetime& l) {
    return l.pool != 0 && l.pool != trace::kUnknownPool;
  });
  std::vector<uint64_t> ends;
  ends.reserve(steps.size());
  for (const Step& step : steps) ends.push_back(step.first_event + step.event_count);
  // The first lifetime of each step, and the first after all steps.
  std::vector<uint32_t> firsts;
  for (uint32_t i = 0; i < history.lifetimes.size(); ++i) {
    const Lifetime& l = history.lifetimes[i];
    const bool setup =
        l.alloc_event == kBeforeRecording || l.alloc_event < steps.front().first_event;
    if (!setup && firsts.empty()) firsts.push_back(i);
    while (!setup && firsts.size() <= ends.size() && l.alloc_event >= ends[firsts.size() - 1])
      firsts.push_back(i);
    if (firsts.size() > ends.size()) break;  // born after the last step
    const auto birth = static_cast<uint32_t>(firsts.empty() ? 0 : firsts.size() - 1);
    const uint32_t freed = std::min(l.free_requested_event, l.free_completed_event);
    if (freed < ends[birth]) continue;
    const auto death =
        std::upper_bound(ends.begin() + birth, ends.end(), uint64_t{freed}) - ends.begin();
    found.blocks.push_back({.lifetime = i,
                            .birth = birth,
                            .death = static_cast<uint32_t>(death),
                            .site = table.site_of(l),
                            .bytes = l.requested_bytes,
                            .from_begin = setup ? 0 : i - firsts.back(),
                            .from_setup = setup,
                            .is_private = l.pool == trace::kUnknownPool ? has_pools : l.pool != 0});
  }
  while (firsts.size() <= ends.size())
    firsts.push_back(static_cast<uint32_t>(history.lifetimes.size()));
  for (Holdover& b : found.blocks) b.to_end = firsts[b.birth + 1] - b.lifetime;
  std::stable_sort(found.blocks.begin(), found.blocks.end(),
                   [](const Holdover& a, const Holdover& b) { return a.site < b.site; });
  return found;
}

}  // namespace vram::explain
