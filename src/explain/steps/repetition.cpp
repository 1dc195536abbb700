#include "explain/steps/repetition.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

namespace vram::explain {
namespace {

constexpr size_t kRun = 8;  // sizes in a hashed run: too many to recur by chance
constexpr size_t kMaxSampledRuns =
    1 << 17;  // runs kept of one pass, chosen by hash so that repeats stay together
constexpr uint32_t kMinSteps = 3;  // two of a thing are no rhythm
constexpr double kMinCoverage =
    0.5;  // runs that recur at random reach 0.36 (exponential distances)
constexpr double kMinStepDistance = 0.4;  // of the median distance: nearer is no new step
constexpr double kMinDistinctRuns = 3;
constexpr uint32_t kMinDistance = 5;  // allocations in a step
constexpr double kMinSwing = 0.1;     // of the largest fall of live bytes from one to the next

uint64_t mixed(uint64_t x) {
  x ^= x >> 31;
  x *= 0x7fb5d329728ea185U;
  x ^= x >> 27;
  x *= 0x81dadef4bc2dd44dU;
  return x ^ (x >> 33);
}

// Sizes as small ids, and for each the distances between its occurrences.
struct Sizes {
  PodVector<uint32_t> id_of;     // by allocation
  PodVector<uint32_t> distance;  // by allocation: back to the last of this size; 0 for the first
  uint32_t count = 0;
};

Sizes number_sizes(std::span<const SizedAllocation> allocations) {
  Sizes sizes;
  sizes.id_of.reserve(allocations.size());
  sizes.distance.reserve(allocations.size());
  std::unordered_map<uint64_t, uint32_t> ids;
  std::vector<uint32_t> last;
  for (uint32_t i = 0; i < allocations.size(); ++i) {
    const auto [entry, is_new] =
        ids.try_emplace(allocations[i].size_bytes * 2 + (allocations[i].is_long_lived ? 1 : 0),
                        static_cast<uint32_t>(last.size()));
    const uint32_t id = entry->second;
    if (is_new) last.push_back(i);
    sizes.id_of.push_back(id);
    sizes.distance.push_back(i - last[id]);
    last[id] = i;
  }
  sizes.count = static_cast<uint32_t>(last.size());
  return sizes;
}

// The sizes whose occurrences are at most `limit` apart through most of the recording: the others
// only break up runs.
std::vector<bool> recurring_sizes(const Sizes& sizes, uint32_t limit) {
  std::vector<uint64_t> covered(sizes.count, 0);
  for (size_t i = 0; i < sizes.id_of.size(); ++i) {
    if (sizes.distance[i] <= limit) covered[sizes.id_of[i]] += sizes.distance[i];
  }
  std::vector<bool> recurring(sizes.count);
  const double needed = kMinCoverage * static_cast<double>(sizes.id_of.size());
  for (uint32_t id = 0; id < sizes.count; ++id)
    recurring[id] = static_cast<double>(covered[id]) >= needed;
  return recurring;
}

struct Run {
  uint64_t hash;
  uint32_t at;  // allocation number of its last size
};

struct Runs {
  std::vector<Run> kept;    // by hash, then in order
  double sampled_from = 1;  // different runs that each one kept represents
};

// A polynomial hash over the last kRun recurring sizes, rolled along. Another salt samples other
// runs.
Runs hash_runs(const Sizes& sizes, const std::vector<bool>& recurring, uint64_t salt) {
  constexpr uint64_t kBase = 0x9e3779b97f4a7c15U;
  uint64_t drop = 1;
  for (size_t i = 0; i < kRun; ++i) drop *= kBase;
  size_t kept = 0;
  for (const uint32_t id : sizes.id_of) kept += recurring[id] ? 1 : 0;
  uint64_t mask = 0;
  while (kept / (mask + 1) > kMaxSampledRuns) mask = mask * 2 + 1;
  Runs runs;
  runs.sampled_from = static_cast<double>(mask + 1);
  uint64_t window[kRun] = {};
  uint64_t hash = 0;
  size_t seen = 0;
  for (uint32_t i = 0; i < sizes.id_of.size(); ++i) {
    if (!recurring[sizes.id_of[i]]) continue;
    const uint64_t value = mixed(sizes.id_of[i] + 1);
    hash = hash * kBase + value - window[seen % kRun] * drop;
    window[seen % kRun] = value;
    if (++seen < kRun) continue;
    const uint64_t spread = mixed(hash + salt);
    if ((spread & mask) == 0) runs.kept.push_back({spread, i});
  }
  std::sort(runs.kept.begin(), runs.kept.end(), [](const Run& a, const Run& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.at < b.at;
  });
  return runs;
}

struct Spacing {
  uint32_t median = 0;
  uint64_t regular = 0;  // sum of the distances within a factor of two of the median
  uint64_t tight = 0;    // ... within a quarter
};

Spacing spacing_of(std::span<const Run> run, std::vector<uint32_t>* distances) {
  distances->clear();
  for (size_t i = 1; i < run.size(); ++i) distances->push_back(run[i].at - run[i - 1].at);
  const auto middle = distances->begin() + static_cast<ptrdiff_t>(distances->size() / 2);
  std::nth_element(distances->begin(), middle, distances->end());
  Spacing spacing{*middle, 0, 0};
  for (const uint32_t d : *distances) {
    if (d >= spacing.median / 2 && d <= uint64_t{spacing.median} * 2) spacing.regular += d;
    if (d >= spacing.median - spacing.median / 4 && d <= spacing.median + spacing.median / 4)
      spacing.tight += d;
  }
  return spacing;
}

struct RunOccurrences {
  std::span<const Run> at;
  Spacing spacing;
};

// All runs that come at about one distance.
struct Candidate {
  std::vector<RunOccurrences> runs;
  double distinct = 0;
  double occurrences = 0;
  RunOccurrences best;
};

// Of the runs that cover about as much as any does, the one that occurs most often: it misses no
// step.
RunOccurrences best_of(const std::vector<RunOccurrences>& runs, size_t allocations) {
  uint64_t most = 0;
  for (const RunOccurrences& r : runs) most = std::max(most, r.spacing.regular);
  const uint64_t enough = most - std::min<uint64_t>(most, allocations / 50);
  RunOccurrences best;
  for (const RunOccurrences& r : runs) {
    if (r.spacing.regular < enough) continue;
    const bool better = r.at.size() != best.at.size() ? r.at.size() > best.at.size()
                                                      : r.spacing.regular > best.spacing.regular;
    if (better) best = r;
  }
  return best;
}

// Distances are grouped by their logarithm, in bins of about a tenth, each joined with its
// neighbours.
int bin_of(uint32_t distance) { return static_cast<int>(std::lround(std::log2(distance) * 8)); }

std::map<int, Candidate> group_by_distance(const Runs& runs, size_t allocations) {
  std::map<int, Candidate> by_distance;
  std::vector<uint32_t> distances;
  const std::span<const Run> kept = runs.kept;
  for (size_t first = 0, end = 0; first < kept.size(); first = end) {
    while (end < kept.size() && kept[end].hash == kept[first].hash) ++end;
    const std::span<const Run> run = kept.subspan(first, end - first);
    if (run.size() < kMinSteps) continue;
    const Spacing spacing = spacing_of(run, &distances);
    if (spacing.median < kMinDistance) continue;
    if (static_cast<double>(spacing.regular) < kMinCoverage * static_cast<double>(allocations))
      continue;
    Candidate& c = by_distance[bin_of(spacing.median)];
    c.runs.push_back({run, spacing});
    c.distinct += runs.sampled_from;
    c.occurrences += static_cast<double>(run.size());
  }
  return by_distance;
}

std::vector<Candidate> candidates_of(const Runs& runs, size_t allocations) {
  const std::map<int, Candidate> by_distance = group_by_distance(runs, allocations);
  std::vector<Candidate> candidates;
  for (const auto& [bin, own] : by_distance) {
    Candidate c;
    c.distinct = own.distinct;
    c.occurrences = own.occurrences;
    c.best = best_of(own.runs, allocations);
    for (const int near : {bin - 1, bin + 1}) {
      const auto other = by_distance.find(near);
      if (other == by_distance.end()) continue;
      c.distinct += other->second.distinct;
      c.occurrences += other->second.occurrences;
    }
    if (c.distinct >= kMinDistinctRuns) candidates.push_back(std::move(c));
  }
  return candidates;
}

// How far live bytes fall between one occurrence and the next, median against the largest: a loop
// inside a step repeats with small movements, until the rest of the step makes a large one. What
// only ever grows, like a model that is loaded, has no steps; a leak in addition to real ones
// changes no fall.
double swing_of(std::span<const SizedAllocation> allocations, std::span<const Run> run) {
  std::vector<uint64_t> falls;
  for (size_t i = 1; i < run.size(); ++i) {
    uint64_t high = 0;
    uint64_t fall = 0;
    for (uint32_t k = run[i - 1].at; k < run[i].at; ++k) {
      high = std::max(high, allocations[k].live_bytes);
      fall = std::max(fall, high - allocations[k].live_bytes);
    }
    falls.push_back(fall);
  }
  const uint64_t largest = *std::max_element(falls.begin(), falls.end());
  const auto middle = falls.begin() + static_cast<ptrdiff_t>(falls.size() / 2);
  std::nth_element(falls.begin(), middle, falls.end());
  return largest == 0 ? 0 : static_cast<double>(*middle) / static_cast<double>(largest);
}

double score_of(const Candidate& c, size_t runs, size_t allocations) {
  const double coverage =
      static_cast<double>(c.best.spacing.regular) / static_cast<double>(allocations);
  const double tight = static_cast<double>(c.best.spacing.tight) / static_cast<double>(allocations);
  const double explained = std::min(1.0, c.occurrences / static_cast<double>(runs));
  return coverage * (coverage + tight) * std::sqrt(explained) * std::log2(1 + c.distinct);
}

// A run can occur twice in some steps: what follows much too soon is the same step.
std::vector<uint32_t> anchors_of(const Candidate& c) {
  std::vector<uint32_t> anchors;
  for (const Run& run : c.best.at) {
    if (anchors.empty() || run.at - anchors.back() >= c.best.spacing.median * kMinStepDistance)
      anchors.push_back(run.at);
  }
  return anchors;
}

}  // namespace

std::vector<Repetition> find_repetitions(std::span<const SizedAllocation> allocations) {
  std::map<std::pair<int, bool>, Repetition> best_of_distance;
  const Sizes sizes = number_sizes(allocations);
  std::vector<bool> last;
  for (size_t limit = allocations.size() / 2; limit >= kMinDistance; limit /= 2) {
    std::vector<bool> recurring = recurring_sizes(sizes, static_cast<uint32_t>(limit));
    if (recurring == last) continue;
    last = recurring;
    const Runs runs = hash_runs(sizes, recurring, limit);
    for (const Candidate& c : candidates_of(runs, allocations.size())) {
      const double score = score_of(c, runs.kept.size(), allocations.size());
      const bool swings = swing_of(allocations, c.best.at) >= kMinSwing;
      Repetition& best = best_of_distance[{bin_of(c.best.spacing.median), swings}];
      if (score <= best.score) continue;
      best = {anchors_of(c),
              static_cast<uint64_t>(c.distinct),
              c.best.spacing.median,
              static_cast<double>(c.best.spacing.regular) / static_cast<double>(allocations.size()),
              score,
              swings};
    }
  }
  std::vector<Repetition> found;
  for (auto& [distance, r] : best_of_distance) {
    if (r.score > 0) found.push_back(std::move(r));
  }
  std::ranges::stable_sort(found, std::greater(), &Repetition::score);
  return found;
}

}  // namespace vram::explain
